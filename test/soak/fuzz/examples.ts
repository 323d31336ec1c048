/** Bodies, filters and headers that operations accept, beside those of the rows of the isolation sweep. */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROJECT_DIR } from '../../../stack/project.mjs'
import type { World } from '../../isolation/sweep-rows.ts'
import { FOUND, FOUND_BY_JSON, ORDERED } from '../../support/fixtures/odd-documents.ts'
import { unique } from '../../support/fixtures/tenants.ts'

const EXAMPLES_DIR = join(PROJECT_DIR, 'flows-dsl/examples')
const FLOWS: readonly string[] = readdirSync(EXAMPLES_DIR)
  .filter((file) => file.endsWith('.yaml') && !file.endsWith('.cases.yaml'))
  .map((file) => readFileSync(join(EXAMPLES_DIR, file), 'utf8'))

/** Filters in URLs: see odd-documents.ts. */
export const FILTERS: readonly string[] = [...FOUND, ...ORDERED].map(([query]) =>
  query.replaceAll(' ', '%20').replaceAll('#', '%23'),
)

/** Values of headers, by name. */
export const HEADERS: Readonly<Record<string, readonly string[]>> = {
  'if-match': ['*', '"v1"', '"v2", "v1"'],
  'if-none-match': ['*', '"v1"', 'W/"v1"'],
  'if-modified-since': ['Wed, 21 Oct 2015 07:28:00 GMT', 'Wed, 21 Oct 2099 07:28:00 GMT'],
  'if-unmodified-since': ['Wed, 21 Oct 2015 07:28:00 GMT', 'Wed, 21 Oct 2099 07:28:00 GMT'],
  'if-range': ['"x"', 'Wed, 21 Oct 2015 07:28:00 GMT'],
  range: ['bytes=0-1', 'bytes=-1', 'bytes=2-', 'bytes=0-0,2-3', 'bytes=99-'],
  prefer: ['wait=1', 'respond-async', 'count=exact', 'return=minimal'],
  'content-type': ['application/json', 'application/x-ndjson', 'text/plain', 'text/csv'],
  'content-encoding': ['identity', 'gzip'],
  'content-disposition': ['attachment; filename="a.txt"'],
  'content-language': ['de'],
  'content-md5': ['AAAAAAAAAAAAAAAAAAAAAA=='],
  'content-digest': ['sha-256=:AAAA:'],
  'repr-digest': ['sha-256=:AAAA:'],
  'cache-control': ['max-age=60', 'no-store'],
  'last-event-id': ['0-0', '1-1', ''],
  'idempotency-key': ['a', '"b"'],
  'x-request-id': ['r-1'],
  'tenon-chain-depth': ['1'],
}

const SCHEMA = {
  type: 'object',
  properties: {
    by: { type: 'string', maxLength: 200 },
    n: { type: 'integer', minimum: 0 },
    tags: { type: 'array', items: { type: 'string' } },
  },
}
const ACCESS = {
  user: { read: { _owner: '$user.id' }, create: true, update: { _owner: '$user.id' }, delete: false },
  anon: { read: { by: 'us' } },
}
const FUNCTION = `export const config = { timeout: '5s' }
export default async (input, { tenon, log }) => {
  log('begun', input)
  const { data } = await tenon.collections.query('secrets', { limit: 1 })
  return { input, data }
}`

const sources = (): unknown[] => FLOWS.map((source) => ({ source }))

/** Own names, so that a creation is not the second of its name. */
const renamed = (source: string) => source.replace(/^( +name: ).*$/m, `$1${unique('f')}`)

const MORE: Readonly<Record<string, (world: World) => unknown[]>> = {
  'collection.create': () => [
    { n: 1, s: 'text', tags: ['a'], deep: { x: [1, { y: null }] }, at: '2026-01-01T00:00:00Z' },
    { by: '\u{1f600}'.repeat(500) },
  ],
  'collection.patch': () => [{ by: null }, { deep: { x: { y: 1 } } }],
  'collection.query': () => FOUND_BY_JSON.map(([body]) => body),
  'collection.aggregate': () => [
    { group: ['by'], measures: { n: { count: true }, most: { max: 'n' } }, sort: ['n.desc'], limit: 5 },
    {
      group: { day: { bucket: '_created_at', by: 'day', tz: 'Europe/Berlin' } },
      measures: { total: { sum: 'n' } },
      having: { total: { gt: 1 } },
    },
  ],
  'collection.update_many': () => [
    { filter: { n: 1 }, data: { n: 2 } },
    { filter: {}, all: true, max_documents: 5, dry_run: true, unset: ['a'] },
  ],
  'collection.delete_many': () => [
    { filter: { n: { gt: 5 } }, max_documents: 10 },
    { filter: {}, all: true, dry_run: true },
  ],
  'collection.batch': ({ documentId: id }) => [
    {
      ops: [
        { op: 'create', data: { n: 1 } },
        { op: 'increment', id, field: 'n', by: 2 },
      ],
    },
    {
      ops: [
        { op: 'create', data: { n: 1, tags: ['a'] } },
        {
          ...{
            op: 'update',
            id: { $ref: 0 },
            set: { 'o.of': { $ref: 0 } },
            inc: { n: 1 },
            push: { tags: 'b' },
          },
          ...{ pull: { 'o.tags': { each: ['a'] } }, max: { by: 'us' }, min: { best: 2 }, now: ['at'] },
        },
        { op: 'update', id, unset: ['o.x', 'absent'] },
      ],
    },
    {
      atomic: false,
      ops: [
        { op: 'patch', id, data: { by: 'x' } },
        { op: 'delete', id, if_version: 99 },
      ],
    },
    {
      ops: [
        { op: 'replace', id, data: { by: 'us' } },
        { op: 'update', id, data: { n: 1 }, unset: ['s'] },
      ],
    },
  ],
  'batch.run': ({ documentId: id }) => [
    {
      ops: [
        { collection: 'secrets', op: 'increment', id, field: 'n' },
        { collection: 'others', op: 'create', data: {} },
      ],
    },
  ],
  'collection.import': () => ['{"a":1}\n{"a":2}\n', '{"a":1}\n\n{"id":"doc_x"}\n'],
  'collection.explain': ({ workspace, documentId: id }) => [
    { workspace_id: workspace.workspaceId, as: 'anon', op: 'create', document: { by: 'us' } },
    { workspace_id: workspace.workspaceId, as: { user: 'mia' }, op: 'update', id, document: { by: 'x' } },
  ],
  'schema.create': ({ workspace }) => [
    {
      ...{
        workspace_id: workspace.workspaceId,
        collection: unique('c'),
        store: 'relational',
        schema: SCHEMA,
      },
      ...{ mode: 'enforce', indexes: [{ fields: ['n'] }], unique: [['by']], access: ACCESS },
    },
  ],
  'schema.update': () => [
    { schema: SCHEMA, access: ACCESS },
    { schema: {}, indexes: [{ fields: ['n'] }] },
  ],
  'event.publish': () => [{ topic: 'sweep.a', data: { n: 1 } }],
  'service.configure': ({ workspace }) => [
    { workspace_id: workspace.workspaceId, retention: { executions: '30d' }, anon: { collections: 'read' } },
    {
      workspace_id: workspace.workspaceId,
      cors: { origins: ['https://a.example'] },
      egress: { allow: ['a.example:443'] },
    },
  ],
  'quota.set': ({ workspace }) => [
    { workspace_id: workspace.workspaceId, limits: { documents: 100_000, mcp_servers: 5 } },
  ],
  'function.create': ({ workspace }) => [
    {
      workspace_id: workspace.workspaceId,
      name: unique('x'),
      source: FUNCTION,
      config: { retries: 1, idempotent: true },
    },
  ],
  'function.configure': () => [
    { schedule: { cron: '0 0 1 1 *', timezone: 'Europe/Berlin' }, env: { A: 'b' }, concurrency: 2 },
    { triggers: [{ topics: ['sweep.fuzz'] }], memory_mb: 64, scopes: ['collections:read'] },
  ],
  'function.invoke': () => [{ a: [1, { b: 'c' }] }, 'text', null, 1],
  'flow.create': () => FLOWS.map((source) => ({ source: renamed(source) })),
  'flow.update': sources,
  'flow.validate': sources,
  'flow.graph': sources,
  'flow.simulate': () =>
    FLOWS.flatMap((source) => [
      { source },
      { source, input: { name: 'Ada', n: 1 }, events: [], decisions: [] },
    ]),
  'execution.rerun': () => [{ from: '0' }, { dry_run: true }, { input: { a: 1 } }],
  'trigger.test': () => [{ event: { id: '1', source: '/x', type: 'a', data: { a: 1 } } }],
  'mcp_server.create': () => [{ name: 'Another', slug: unique('s') }],
  'flow_alias.set': () => [{ versions: { '1': 100 } }],
  'function_alias.set': () => [{ versions: { '1': 100 } }],
  'mcp_curation.replace': () => [
    {
      tools: {
        'collections:notes:list': { enabled: true, name: 'list_notes', description: 'All notes.' },
        'collections:notes:create': { enabled: true, risk: 'write' },
      },
    },
  ],
  'mcp_version.create': () => [{ accept: ['breaking'] }],
  'mcp_server.call': () => [{ tool: 'notes_create', arguments: { document: { text: 'x' } } }],
}

export const bodiesOf = (operation: string, world: World): readonly unknown[] =>
  MORE[operation]?.(world) ?? []
