-- The statements of a rebuild, each below a line with its name. Names in braces are tables that
-- an earlier statement made, or constants of queries.py. docs/reference/tables.md describes the
-- columns of the tables for analysts.

-- name: asking
-- Events of whose tags a rule reads more than targets; expired requests ask for nothing.
SELECT id, pubkey, created_at, kind, tags FROM {events}
WHERE kind = {gift_wrap} OR kind IN ({deletion}, {vanish}) AND NOT coalesce(exp <= {now}, false)

-- name: deletions
-- Deletions whose author had not vanished.
WITH vanished AS (SELECT who, max(at) AS until FROM {asked} WHERE what = 'vanish' GROUP BY who)
SELECT who, at, id, kind, d FROM {asked} LEFT JOIN vanished USING (who)
WHERE what = 'delete' AND (until IS NULL OR until < at)

-- name: judged
-- Every event once, with its status. Equal ids are equal events, as every id was checked. All
-- rules but those of gift wraps are about events of one author, so authors stay together.
WITH once AS (
  SELECT pubkey, id, min(seq) AS seq, first(created_at) AS created_at, first(kind) AS kind,
    first(d) AS d, coalesce(first(exp) <= {now}, false) AS has_expired
  FROM (SELECT /*+ REPARTITION(pubkey) */ seq, id, pubkey, created_at, kind, d, exp FROM {events})
  GROUP BY pubkey, id
),
vanished AS (
  SELECT who AS pubkey, max(at) AS author_until FROM {asked} WHERE what = 'vanish' GROUP BY who
),
wraps AS (SELECT who, author, id FROM {asked} WHERE what = 'wrap'),
-- The owners of an event are its author and, of a gift wrap, its recipients.
reached AS (
  SELECT who AS pubkey, id, true AS is_named, CAST(NULL AS bigint) AS until
  FROM {deletions} WHERE id IS NOT NULL
  UNION ALL
  SELECT author, id, true, NULL FROM wraps LEFT SEMI JOIN {deletions} USING (who, id)
  UNION ALL
  SELECT author, id, false, author_until FROM wraps JOIN vanished ON who = pubkey
),
by_id AS (
  SELECT pubkey, id, bool_or(is_named) AS is_named, max(until) AS wrap_until
  FROM reached GROUP BY pubkey, id
),
by_address AS (
  SELECT who AS pubkey, kind, d, max(at) AS deleted_until
  FROM {deletions} WHERE kind IS NOT NULL GROUP BY ALL
),
-- The status that needs no other version of the event.
alone AS (
  SELECT seq, id, pubkey, created_at, kind, d, CASE
    WHEN kind BETWEEN 20000 AND 29999 AND NOT has_expired THEN 'ephemeral'
    WHEN kind BETWEEN 20000 AND 29999 THEN 'expired'
    WHEN kind <> {vanish} AND greatest(author_until, wrap_until) >= created_at THEN 'vanished'
    WHEN kind NOT IN ({deletion}, {vanish}) AND (is_named OR deleted_until >= created_at)
      THEN 'deleted'
    WHEN has_expired THEN 'expired'
    ELSE 'stored' END AS status
  FROM once LEFT JOIN vanished USING (pubkey) LEFT JOIN by_id USING (pubkey, id)
    LEFT JOIN by_address USING (pubkey, kind, d)
),
-- Of the living versions of an address the newest stays, of equals the lowest id. What has no
-- address is alone in its group, however much its author wrote.
ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY pubkey, kind, d, CASE WHEN d IS NULL THEN id END
    ORDER BY status = 'stored' DESC, created_at DESC, id) AS place
  FROM alone
)
SELECT seq, id, pubkey, created_at, kind,
  CASE WHEN status = 'stored' AND place > 1 THEN 'superseded' ELSE status END AS status
FROM ranked

-- name: lists
-- Every version of a follow list that was valid until a newer one came, and how many its author
-- has.
SELECT seq, count(*) OVER (PARTITION BY pubkey) AS versions
FROM {judged} WHERE kind = {contacts} AND status IN ('stored', 'superseded')

-- name: statuses
SELECT status, count(*) AS events FROM {judged} GROUP BY status

-- name: bitmaps
-- Which rows of an archive these are, a bit each: 4 KB for 32,768 rows, so that every worker may
-- hold those of a whole archive, and no row with its targets is shuffled to drop others. An array
-- of bytes, less 128, as Java reads a byte of an array quicker than one of a binary value.
SELECT bucket, transform(sequence(1, length(bits)),
  at -> tinyint(int(conv(hex(substring(bits, at, 1)), 16, 10)) - 128)) AS bits
FROM (
  SELECT bitmap_bucket_number(seq) AS bucket,
    bitmap_construct_agg(bitmap_bit_position(seq)) AS bits
  FROM {rows} GROUP BY ALL
)

-- name: marked
-- The rows whose bits are set.
SELECT /*+ BROADCAST(b) */ e.*
FROM {rows} AS e JOIN {bits} AS b ON b.bucket = bitmap_bucket_number(e.seq)
WHERE getbit(bits[int(bitmap_bit_position(seq) DIV 8)] + 128,
  int(bitmap_bit_position(seq) % 8)) = 1

-- name: hot_targets
-- Targets of many events. Stage the result: each computation gives other numbers.
SELECT monotonically_increasing_id() AS t, target, kind, events
FROM (SELECT target, kind, sum(events) AS events FROM {tags} GROUP BY target, kind)
WHERE events >= {hot}

-- name: daily_authors
SELECT created_at DIV {day_s} AS day, kind, pubkey, count(*) AS n
FROM {living} GROUP BY ALL SORT BY day, kind, pubkey

-- name: daily
SELECT day, kind, sum(n) AS events, count(*) AS authors FROM {authors} GROUP BY day, kind

-- name: kinds
SELECT kind, sum(events) AS events FROM {daily} GROUP BY kind

-- name: zap
-- Receipts and what they say was paid, by target: their staged tags have nothing else.
SELECT name, value, count(*) AS receipts, bigint(least(sum(msats), {most_msats})) AS msats
FROM (
  SELECT get(tag, 0) AS name, get(tag, 1) AS value, CAST(get(tag, 2) AS decimal(20, 0)) AS msats
  FROM (SELECT explode(from_json(tags, 'array<array<string>>')) AS tag
        FROM {living} WHERE kind = {zap})
  WHERE get(tag, 0) IN {zap_targets}
)
GROUP BY name, value

-- name: public
-- Events that are not private. A day after the year 9999 is null: not all readers of Parquet know
-- it, and anybody may write any time.
SELECT *, CASE WHEN created_at DIV {day_s} <= 2932896
  THEN date_from_unix_date(int(created_at DIV {day_s})) END AS day
FROM {living} WHERE mentions IS NOT NULL

-- name: said
-- What public events say of others: what, of which target, and a label.
SELECT pubkey, created_at, kind,
  get(mention, 0) AS what, get(mention, 1) AS target, get(mention, 2) AS label
FROM (SELECT pubkey, created_at, kind,
        explode(from_json(mentions, 'array<array<string>>')) AS mention
      FROM {public} WHERE mentions <> '[]')

-- name: mentioned
-- Each thing that is said of each target. `marked` are dislikes, or direct replies.
SELECT what, target, sum(events) AS events, count(*) AS people, sum(marked) AS marked,
  min(first_seen) AS first_seen, max(last_seen) AS last_seen
FROM (
  SELECT what, target, pubkey, count(*) AS events, count_if(label IN ('-', 'direct')) AS marked,
    min(created_at) AS first_seen, max(created_at) AS last_seen
  FROM {said} WHERE what <> 'identifier' GROUP BY what, target, pubkey
)
GROUP BY what, target

-- name: identifiers
-- Each identifier that events are about, and the kind (NIP-73) that most of them give it, of
-- equals the first by name; null where none gives one.
SELECT target, min_by(k, CASE WHEN k IS NOT NULL THEN struct(-n, k) END) AS k
FROM (SELECT target, label AS k, count(*) AS n FROM {said}
      WHERE what = 'identifier' AND kind IN ({comment}, {external_reaction}) GROUP BY ALL)
GROUP BY target

-- name: people
-- Every author. Who asked to vanish has no living event but that request, and no card.
SELECT lower(hex(pubkey)) AS pubkey, count(*) AS events,
  min(created_at) AS first_seen, max(created_at) AS last_seen,
  count_if(kind = {note} AND NOT is_reply) AS posts,
  count_if(kind = {note} AND is_reply OR kind = {comment}) AS replies,
  min(created_at) FILTER (WHERE kind = {note}) AS first_note,
  bool_or(kind <> {vanish}) AS has_card
FROM {public} GROUP BY pubkey

-- name: relay_sets
-- How many events, people and targets each set of relays has, and no relay beside it. The sets of
-- relays that have the same things are few beside the things, so only the sets are paired.
WITH held AS (
  SELECT id, array_sort(collect_set(relay)) AS relays
  FROM {copies} GROUP BY id
),
things AS (
  SELECT relays, explode(concat(
    array(struct('events' AS what, lower(hex(id)) AS thing),
      struct('people' AS what, lower(hex(pubkey)) AS thing)),
    transform(
      filter(from_json(mentions, 'array<array<string>>'),
        m -> get(m, 0) IN ('reply', 'quote', 'repost', 'reaction')),
      m -> struct('targets' AS what, get(m, 1) AS thing)))) AS one
  FROM {public} JOIN held USING (id)
),
sets AS (
  SELECT one.what, one.thing, array_sort(array_distinct(flatten(collect_set(relays)))) AS relays
  FROM things GROUP BY one.what, one.thing
)
SELECT what, relays, count(*) AS n FROM sets GROUP BY what, relays

-- name: daily_actives
SELECT day, sum(events) AS events, count(*) AS people,
  hll_sketch_agg(pubkey, {sketch_bits}) AS sketch
FROM (SELECT day, pubkey, count(*) AS events FROM {public} GROUP BY day, pubkey)
GROUP BY day SORT BY day

-- name: weekly_actives
-- Weeks begin on Monday.
SELECT week, sum(events) AS events, count(*) AS people,
  hll_sketch_agg(pubkey, {sketch_bits}) AS sketch
FROM (SELECT trunc(day, 'week') AS week, pubkey, count(*) AS events FROM {public} GROUP BY ALL)
GROUP BY week SORT BY week

-- name: authors
SELECT * EXCEPT (has_card) FROM {people} SORT BY pubkey

-- name: follows
-- Edges by all versions of follow lists that were ever valid. Of most authors there is one list,
-- whose edges need no shuffle, and are in order if the lists are. A target is a letter and the 32
-- bytes of a key.
WITH only AS (
  SELECT pubkey, created_at, targets FROM {only_lists} WHERE length(targets) > 0 SORT BY pubkey
),
-- Bytes are cut in place; each part of a text would be looked for from its beginning.
digits_of_only AS (
  SELECT lower(hex(pubkey)) AS follower, created_at, length(targets) DIV 33 AS number,
    binary(lower(hex(targets))) AS digits
  FROM only
),
edges_of_only AS (
  SELECT follower, created_at, explode(transform(
    sequence(0, number - 1), at -> substring(digits, at * 66 + 3, 64))) AS followed
  FROM digits_of_only
),
-- A version is newer by its time, of equals by the lower id.
versions AS (
  SELECT pubkey, created_at, targets, row_number() OVER older AS n,
    lead(created_at) OVER older AS until
  FROM {lists} WINDOW older AS (PARTITION BY pubkey ORDER BY created_at, id DESC)
),
edges AS (
  SELECT pubkey, created_at, n, until, explode(transform(
    sequence(0, length(targets) DIV 33 - 1), at -> substring(targets, at * 33 + 2, 32))) AS followed
  FROM versions WHERE length(targets) > 0
),
of_several AS (
  SELECT lower(hex(pubkey)) AS follower, lower(hex(followed)) AS followed,
    min(created_at) AS first_seen, max(created_at) AS last_seen, max_by(until, n) AS left_at
  FROM edges GROUP BY pubkey, followed SORT BY follower
)
SELECT follower, string(followed) AS followed, created_at AS first_seen,
  created_at AS last_seen, CAST(NULL AS bigint) AS left_at
FROM edges_of_only
UNION ALL SELECT * FROM of_several

-- name: reactions
SELECT target, events, people, marked AS dislikes, first_seen, last_seen
FROM {mentioned} WHERE what = 'reaction' SORT BY target

-- name: reposts
SELECT target, events, people, first_seen, last_seen FROM {mentioned} WHERE what = 'repost'
SORT BY target

-- name: quotes
SELECT target, events, people, first_seen, last_seen FROM {mentioned} WHERE what = 'quote'
SORT BY target

-- name: replies
-- An identifier may have any name, also that of an event, so that `target_kind` is part of the key.
SELECT target, CASE WHEN what = 'external reply' THEN {identifier_card}
    WHEN contains(target, ':') THEN {address_card} ELSE {event_card} END AS target_kind,
  events, people, marked AS direct, first_seen, last_seen
FROM {mentioned} WHERE what IN ('reply', 'external reply') SORT BY target

-- name: hashtags
SELECT target AS hashtag, events, people, first_seen, last_seen
FROM {mentioned} WHERE what = 'hashtag' SORT BY hashtag

-- name: zaps
-- A payment counts once, by its first receipt.
WITH claims AS (
  SELECT get(tag, 1) AS payment, min_by(
    struct(get(tag, 4) AS recipient, get(tag, 3) AS sender, day,
      CAST(get(tag, 2) AS decimal(20, 0)) AS msats),
    struct(created_at, id)) AS claim
  FROM (SELECT id, created_at, day, explode(from_json(tags, 'array<array<string>>')) AS tag
        FROM {public} WHERE kind = {zap})
  WHERE get(tag, 0) = {payment} GROUP BY 1
)
SELECT claim.recipient, claim.sender, claim.day, count(*) AS payments,
  bigint(least(sum(claim.msats), {most_msats})) AS msats
FROM claims GROUP BY 1, 2, 3 SORT BY recipient, sender

-- name: relays
-- `share` is of all events whose relay is known.
SELECT relay,
  coalesce(sum(n) FILTER (WHERE what = 'events'), 0) AS events,
  coalesce(sum(n) FILTER (WHERE what = 'events'), 0)
    / (SELECT sum(n) FROM {relay_sets} WHERE what = 'events') AS share,
  coalesce(sum(n) FILTER (WHERE what = 'events' AND size(relays) = 1), 0) AS only_here,
  coalesce(sum(n) FILTER (WHERE what = 'people'), 0) AS people,
  coalesce(sum(n) FILTER (WHERE what = 'targets'), 0) AS targets
FROM (SELECT *, explode(relays) AS relay FROM {relay_sets}) GROUP BY relay SORT BY relay

-- name: relay_overlap
SELECT relay, other,
  coalesce(sum(n) FILTER (WHERE what = 'events'), 0) AS events,
  coalesce(sum(n) FILTER (WHERE what = 'people'), 0) AS people,
  coalesce(sum(n) FILTER (WHERE what = 'targets'), 0) AS targets
FROM (SELECT *, explode(relays) AS other
      FROM (SELECT *, explode(relays) AS relay FROM {relay_sets}))
WHERE relay <> other GROUP BY relay, other SORT BY relay, other

-- name: assertions
-- Every count that NIP-85 names, by subject, as `nostr_client.assertions.fields` defines it.
-- Neither zaps nor personal fields are counted.
WITH counts AS (
  SELECT target,
    sum(events) FILTER (WHERE what = 'reply') AS comments,
    sum(events) FILTER (WHERE what = 'quote') AS quotes,
    sum(people) FILTER (WHERE what = 'repost') AS reposts,
    sum(people) FILTER (WHERE what = 'reaction') AS reactions,
    sum(events) FILTER (WHERE what = 'external reply') AS external_comments,
    sum(people) FILTER (WHERE what = 'external reaction') AS external_reactions,
    sum(events) FILTER (WHERE what = 'reaction to') AS received
  FROM {mentioned} WHERE what <> 'hashtag' GROUP BY target
),
-- One list of each author is alive. A key is the letter p (X'70') and 32 bytes.
followed AS (
  SELECT lower(hex(substring(target, 2))) AS pubkey, sum(events) AS followers FROM {tags}
  WHERE kind = {contacts} AND substring(target, 1, 1) = X'70' GROUP BY ALL
),
things AS (
  SELECT kind BETWEEN 30000 AND 39999 AS is_address,
    CASE WHEN kind BETWEEN 30000 AND 39999
      THEN concat(kind, ':', lower(hex(pubkey)), ':', coalesce(d, ''))
      ELSE lower(hex(id)) END AS target
  FROM {public}
  WHERE kind NOT IN {no_subjects} AND kind NOT IN ({metadata}, {contacts})
    AND kind NOT BETWEEN 10000 AND 19999
),
cards AS (
  SELECT {user_card} AS kind, pubkey AS subject, CAST(NULL AS array<string>) AS subject_kinds,
    map_filter(map('followers', coalesce(followers, 0), 'first_created_at', first_note,
      'post_cnt', posts, 'reply_cnt', replies, 'reactions_cnt', coalesce(received, 0)),
      (name, n) -> n IS NOT NULL) AS fields
  FROM {people} LEFT JOIN followed USING (pubkey) LEFT JOIN counts ON target = pubkey
  WHERE has_card
  UNION ALL
  SELECT CASE WHEN is_address THEN {address_card} ELSE {event_card} END, target, NULL,
    map('comment_cnt', coalesce(comments, 0), 'quote_cnt', coalesce(quotes, 0),
      'repost_cnt', coalesce(reposts, 0), 'reaction_cnt', coalesce(reactions, 0))
  FROM things LEFT JOIN counts USING (target)
  UNION ALL
  SELECT {identifier_card}, target, CASE WHEN k IS NOT NULL THEN array(k) END,
    map('comment_cnt', coalesce(external_comments, 0),
      'reaction_cnt', coalesce(external_reactions, 0))
  FROM {identifiers} LEFT JOIN counts USING (target)
)
SELECT *, CAST({now} AS bigint) AS as_of FROM cards SORT BY kind, subject
