/** Serves documentation: the site, the OpenAPI document, the text for language models, a page per problem code and per diagnostic, the flow schema. */

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import fastifyStatic, { type FastifyStaticOptions } from '@fastify/static'
import type { FastifyInstance } from 'fastify'
import { DIAGNOSTICS } from '../../flows-dsl/diagnostics/catalogue.ts'
import type { DiagnosticCode } from '../../flows-dsl/diagnostics/diagnostics.ts'
import { editorSchema } from '../../flows-dsl/language-schema/language-schema.ts'
import { matches } from '../core/etag.ts'
import { Problem } from '../core/problem.ts'
import { PROBLEMS, type ProblemCode } from '../core/problem-catalogue.ts'
import { CATALOGUE } from '../features/data-operations.ts'
import { diagnosticPage } from '../features/flows/analyze.ts'
import { OPERATIONS } from '../features/index.ts'
import { openApi } from '../features/openapi/document.ts'

/** @param folder of the built site (src/site); it may be written later */
export async function mountDocs(app: FastifyInstance, folder: string | undefined): Promise<void> {
  const document = openApi(OPERATIONS)
  app.get('/openapi.json', async () => document)
  app.get('/llms.txt', async (_request, reply) =>
    reply.type('text/plain; charset=utf-8').send(`${LLMS_TEXT}\n${await pagesText(folder)}`),
  )
  app.get('/docs/problems/:code', async (request, reply) => {
    const { code } = request.params as { code: string }
    if (!Object.hasOwn(PROBLEMS, code)) throw new Problem('route_not_found')
    const { status, title } = PROBLEMS[code as ProblemCode]
    return reply
      .type('text/plain; charset=utf-8')
      .send(`${code} (${status})\n\n${title}.\n${new Problem(code as ProblemCode).fullHint}\n`)
  })
  app.get('/docs/flows/diagnostics/:code', async (request, reply) => {
    const { code } = request.params as { code: string }
    if (!Object.hasOwn(DIAGNOSTICS, code)) throw new Problem('route_not_found')
    return reply.type('text/markdown; charset=utf-8').send(diagnosticPage(code as DiagnosticCode))
  })
  if (folder !== undefined) await app.register(fastifyStatic, siteIn(folder))
}

/** The list of pages in the site's own `llms.txt`, below its head; empty while there is no site. */
async function pagesText(folder: string | undefined): Promise<string> {
  const text = folder === undefined ? '' : await readFile(join(folder, 'llms.txt'), 'utf8').catch(() => '')
  return text.slice(Math.max(text.indexOf('## '), 0))
}

/** Pages of the repository alone: nothing of a tenant is ever among them. */
const SITE_HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; '),
  'referrer-policy': 'same-origin',
  // Pages change with a release; a browser asks whether they have.
  'cache-control': 'no-cache',
} as const

const siteIn = (root: string): FastifyStaticOptions => ({
  root,
  prefix: '/docs',
  redirect: true,
  extensions: ['html'],
  preCompressed: true,
  cacheControl: false,
  decorateReply: false,
  setHeaders: (reply) => {
    for (const [name, value] of Object.entries(SITE_HEADERS)) reply.header(name, value)
  },
})

export const FLOW_SCHEMA_PATH = '/v1/flows/schema.json'

/** The JSON Schema of flows, as it is served and written to docs/reference. */
export const flowSchema = (): string => `${JSON.stringify(editorSchema(CATALOGUE), null, 2)}\n`

export function mountFlowSchema(app: FastifyInstance): void {
  const text = flowSchema()
  const etag = `"${createHash('sha256').update(text).digest('base64url')}"`
  app.get(FLOW_SCHEMA_PATH, async (request, reply) => {
    // The same for all callers; it changes with a release only, and editors request it at each start.
    reply.removeHeader('vary')
    reply.headers({ etag, 'cache-control': 'public, max-age=3600', 'access-control-allow-origin': '*' })
    if (matches(request.headers['if-none-match'] ?? '', etag, 'weak')) return reply.code(304).send()
    return reply.type('application/schema+json').send(text)
  })
}

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

const LLMS_TEXT = `# Tenon

> One backend for many tenants: JSON documents, objects, events, sandboxed functions, durable flows and MCP servers behind one REST API.

Applications send an API key of a workspace (\`apikey: svc_…\`), admins and users an access token (\`Authorization: Bearer …\`). Errors are
problem documents (RFC 9457): \`code\` is stable, \`detail\` says what is wrong, \`hint\` what to do next.

Agents had better use the MCP server at [/v1/mcp/platform/mcp](/v1/mcp/platform/mcp): it has the operations as tools, finds its issuer by itself, and
offers the flow language and examples as resources.

## Reference
- [OpenAPI 3.1](/openapi.json): all operations with their schemas
- [JSON Schema of flows](/v1/flows/schema.json): every task and field of the flow language
- [Problem codes](/docs/problems/validation_failed): a page for each \`code\`
- [Documentation in a browser](/docs/), [the API there](/docs/api/); every page is Markdown as well, under its path with .md

## Areas
${AREAS.map(([title, text]) => `- ${title}: ${text}`).join('\n')}
`
