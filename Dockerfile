# One image for the API, the worker and the one-off jobs; the command says which. docs/deploying.md names what it needs.
FROM denoland/deno:bin-2.9.8 AS deno

FROM node:24.21.0-bookworm-slim AS build
WORKDIR /app
ENV NODE_ENV=production
COPY package.json package-lock.json .npmrc ./
COPY client/package.json ./client/
# Without the binaries of Temporal's SDK for other machines and its sources: 130 MB.
RUN npm ci --omit=dev --no-audit --no-fund \
  && cd node_modules/@temporalio/core-bridge \
  && find releases -mindepth 1 -maxdepth 1 -not -name "$(uname -m)-unknown-linux-gnu" -exec rm -r {} + \
  && rm -r sdk-core
COPY tsconfig.json ./
COPY flows-dsl ./flows-dsl
# The site is built of all pages; the platform's MCP server has those of this folder as resources.
COPY docs ./docs
COPY CONTRIBUTING.md CHANGELOG.md ./
COPY test/README.md ./test/
COPY stack ./stack
COPY examples ./examples
COPY src ./src
COPY client ./client
RUN node src/cli/main.ts build /app/dist && rm -r node_modules/.cache docs/*/ test CONTRIBUTING.md CHANGELOG.md

# No npm, no compiler, no headers: Node is one file.
FROM debian:bookworm-slim
# bubblewrap isolates the processes of functions, and tini reaps those that outlive it. The certificates are for servers behind TLS.
# A new volume takes the owner of /identity.
RUN apt-get update \
  && apt-get install -y --no-install-recommends bubblewrap ca-certificates tini \
  && rm -rf /var/lib/apt/lists/* /var/log/* \
  && install -d -o 1000 -g 1000 /identity
WORKDIR /app
COPY --from=deno /deno /usr/local/bin/deno
COPY --from=build /usr/local/bin/node /usr/local/bin/node
COPY --from=build /app ./
ENV NODE_ENV=production TENON_HOST=0.0.0.0 TENON_PORT=8787
ENV TENON_WORKFLOW_BUNDLE=/app/dist/workflows.js TENON_DENO_BIN=/usr/local/bin/deno TENON_DOCS_DIR=/app/dist/site
# A number, so that Kubernetes can see that it is not root.
USER 1000:1000
EXPOSE 8787
ENTRYPOINT ["tini", "--"]
CMD ["node", "dist/api.mjs"]
