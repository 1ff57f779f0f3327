# A counter across two agents: bash two_agents.sh [PORT_OF_ES PORT_OF_EU]
# `es` counts plays, `eu` has the total of what it sources. Nothing counts twice, however often.
set -eu
es=http://127.0.0.1:${1:-4881} eu=http://127.0.0.1:${2:-4882}
folder=$(mktemp -d)
trap 'kill $(jobs -p); wait; rm -r "$folder"' EXIT

agent() { # NAME URL, and what else its configuration holds
    cat > "$folder/$1.toml" <<END
[store]
path = "$folder/$1.db"
[api]
listen = "${2#http://}"
token_file = "$folder/$1.token"
[relay]
enabled = false
$3
END
    nostr-agent run --config "$folder/$1.toml" 2> "$folder/$1.log" &
    until nostr-agent status --api "$2" --token-file "$folder/$1.token" > /dev/null 2>&1
    do kill -0 $!; done
}

agent es "$es" ''
agent eu "$eu" "
[[counters.sources]]
name = 'es'
stream = 'app'
agent = '$es'
token_file = '$folder/es.token'
transforms = [{ src = 'app.plays.es', dest = 'app.plays' }]"

nostr-client counter add app.plays.es 3 --api "$es" --token-file "$folder/es.token"
nostr-client counter add app.plays 4 --api "$eu" --token-file "$folder/eu.token"
nostr-client counter link run es --api "$eu" --token-file "$folder/eu.token"
until nostr-client counter get app.plays --api "$eu" --token-file "$folder/eu.token" | grep "es app"
do kill -0 $!; done
