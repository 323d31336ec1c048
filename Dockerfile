# One image for the API, the worker and the one-off jobs; the command says which.
FROM denoland/deno:bin-2.9.8 AS deno

FROM node:24-bookworm-slim
WORKDIR /app
ENV NODE_ENV=production
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --no-audit --no-fund
COPY tsconfig.json ./
COPY flows-dsl ./flows-dsl
# Resources of the platform's MCP server.
COPY docs/collections.md docs/flows.md docs/functions.md docs/mcp.md docs/queries.md docs/schemas.md ./docs/
COPY stack ./stack
COPY examples ./examples
COPY src ./src
RUN node src/cli/main.ts build /app/dist
ENV TENON_WORKFLOW_BUNDLE=/app/dist/workflows.js TENON_HOST=0.0.0.0 TENON_PORT=8787
# Runs functions; the worker starts one process of it per call.
COPY --from=deno /deno /usr/local/bin/deno
ENV TENON_DENO_BIN=/usr/local/bin/deno
USER node
EXPOSE 8787
CMD ["node", "dist/api.mjs"]
