/** The text for language models at `/llms.txt` (llmstxt.org): what the API is, and where to read on. */

const AREAS: readonly (readonly [title: string, text: string])[] = [
  [
    'Documents',
    '`/v1/collections/{name}/documents`: create, read, list, filter; `POST …/query` filters in JSON',
  ],
  ['Schemas', '`POST /v1/schemas` declares fields, indexes and who may read and write them'],
  ['Objects', '`/v1/objects/{bucket}/{key}`: files of any type'],
  ['Events', '`POST /v1/events/publish`, `GET /v1/events/subscribe` (server-sent events)'],
  ['Functions', '`POST /v1/functions` deploys TypeScript, `POST /v1/functions/{name}/invoke` calls it'],
  ['Flows', 'durable workflows in YAML: validate, simulate, publish and run them below `/v1/flows`'],
  ['MCP', 'servers of a workspace below `/v1/mcp/workspaces/{ws}/servers`'],
]

export const LLMS_TEXT = `# Tenon

> One backend for many tenants: JSON documents, objects, events, sandboxed functions, durable flows and MCP servers behind one REST API.

Applications send an API key of a workspace (\`apikey: svc_…\`), admins and users an access token (\`Authorization: Bearer …\`). Errors are
problem documents (RFC 9457): \`code\` is stable, \`detail\` says what is wrong, \`hint\` what to do next.

Agents had better use the MCP server at [/v1/mcp/platform/mcp](/v1/mcp/platform/mcp): it has the operations as tools, finds its issuer by itself, and
offers the flow language and examples as resources.

## Reference
- [OpenAPI 3.1](/openapi.json): all operations with their schemas
- [JSON Schema of flows](/v1/flows/schema.json): every task and field of the flow language
- [Problem codes](/docs/problems/validation_failed): a page for each \`code\`
- [API in a browser](/docs)

## Areas
${AREAS.map(([title, text]) => `- ${title}: ${text}`).join('\n')}
`
