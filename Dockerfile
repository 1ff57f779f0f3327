# The agent, as a user of its own, with its state in a volume.
#   docker build -t nostr-agent .
#   docker run -d -v nostr-agent:/var/lib/nostr-agent -p 127.0.0.1:4870:4870 nostr-agent
# With its local relay, which listens on loopback alone, the container has the host's network:
#   docker run -d -v nostr-agent:/var/lib/nostr-agent --network host \
#     -e NOSTR_AGENT_RELAY__ENABLED=true -e NOSTR_AGENT_API__LISTEN=127.0.0.1:4870 nostr-agent
# With Prometheus and Grafana: deploy/compose.yaml.
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[agent]"

FROM python:3.12-slim
RUN useradd --system --uid 4870 --home-dir /var/lib/nostr-agent --create-home nostr-agent
# hadolint ignore=DL3013  # the wheel is the one that was built above: no index is asked
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "nostr-tally[agent]"
USER 4870:4870
# STATE_DIRECTORY: store, token and addresses live together there.
# Inside the container it listens on all addresses: publish the port on loopback alone.
ENV STATE_DIRECTORY=/var/lib/nostr-agent \
    NOSTR_AGENT_API__LISTEN=0.0.0.0:4870 \
    NOSTR_AGENT_RELAY__ENABLED=false \
    PYTHONUNBUFFERED=1
VOLUME /var/lib/nostr-agent
EXPOSE 4869 4870
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:4870/healthz', timeout=4)"]
ENTRYPOINT ["nostr-agent"]
CMD ["run"]
