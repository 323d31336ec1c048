/** Tools over sources outside the platform: OpenAPI documents, other MCP servers, container images. Each has the definition that was pinned. */

import Type from 'typebox'
import { Input } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { ADMINS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { readsOnly } from '../../../core/tool-annotations.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { previewOperation } from '../../operation-helpers.ts'
import type { Progress } from '../calls/call-client.ts'
import { Content } from '../calls/content.ts'
import { MORE_TIME } from '../calls/tool-result.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { Definition, FrozenDefinition } from '../remote/definitions.ts'
import { kindOf } from '../remote/kinds.ts'
import { findCachedSource } from '../remote/source-store.ts'
import type { Candidate, ToolOutput, ToolProvider } from '../tool.ts'

/** `ws`, `source` and `definition` are fixed by the version. */
const RemoteCall = {
  ws: Type.String(),
  source: Type.String({ description: 'Its id.' }),
  definition: Type.Object({
    key: Type.String(),
    hash: Type.String(),
    call: Type.Record(Type.String(), Type.Unknown()),
  }),
  input: Type.Record(Type.String(), Type.Unknown(), { description: 'Arguments of the tool.' }),
  timeout_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: MCP_LIMITS.toolSecondsMax })),
}
const RemoteOutput = Type.Object({
  output: Type.Unknown(),
  failed: Type.Boolean(),
  content: Type.Optional(Type.Unsafe<readonly Content[]>(Type.Array(Content))),
})
/** No route: only tools run these operations. */
const http = { method: 'POST', path: '/v1/mcp/sources/{source}/call', body: '*' } as const

interface RemoteCall {
  readonly source: string
  readonly definition: FrozenDefinition
  readonly input: Readonly<Record<string, unknown>>
  readonly timeout_seconds?: number
}

/** @throws Problem `state_conflict` if the source was deleted */
async function callRemote(
  scope: WorkspaceScope,
  { source, definition, input, timeout_seconds: limit }: RemoteCall,
  onProgress?: (progress: Progress) => void,
): Promise<ToolOutput> {
  const found = await findCachedSource(scope, source).catch((error: unknown) => {
    if (!(error instanceof Problem) || error.code !== 'not_found') throw error
    throw new Problem('state_conflict', { detail: 'The source of this tool was deleted.' })
  })
  const late = new AbortController()
  const seconds = limit ?? MCP_LIMITS.sources.callSeconds
  // The tool's own limit is reached before, and says so.
  const timeoutMs = seconds * 1_000 + (limit === undefined ? 0 : 500)
  const timer = setTimeout(() => late.abort(timedOut(seconds)), timeoutMs)
  const waiting = { signal: late.signal, timeoutMs, ...(onProgress && { onProgress }) }
  return kindOf(found)
    .call(scope, found, { definition, args: input, waiting })
    .catch(withTimeHint)
    .finally(() => clearTimeout(timer))
}

const timedOut = (seconds: number) =>
  new Problem('upstream_timeout', {
    detail: `The server of the tool has not answered within ${seconds} s.`,
    members: { may_have_arrived: true },
  })

/** No argument of a call gives its server more time. @throws what it gets */
function withTimeHint(error: unknown): never {
  if (!(error instanceof Problem) || error.code !== 'upstream_timeout') throw error
  const { code, message: detail, members, cause } = error
  throw new Problem(code, { detail, ...MORE_TIME, members, cause })
}

const readSource = previewOperation({
  name: 'mcp_source.query',
  roles: ADMINS,
  summary: 'Call a tool of a source that only reads',
  reads: true,
  input: Input(RemoteCall),
  output: RemoteOutput,
  http,
  run: (scope, input) => callRemote(scope, input),
})

const changeSource = previewOperation({
  name: 'mcp_source.call',
  roles: ADMINS,
  summary: 'Call a tool of a source',
  input: Input(RemoteCall),
  output: RemoteOutput,
  http,
  run: (scope, input) => callRemote(scope, input),
})

interface Row {
  readonly id: string
  readonly name: string
  readonly kind: string
  readonly definition: Definition & FrozenDefinition
}

export const remote: ToolProvider = {
  name: 'remote',
  operations: [readSource, changeSource],
  candidates: async (scope, chosen) => {
    const rows = await scope.rows<Row>(sql`
      select s.id, s.name, s.kind, d.definition from mcp_sources s,
        jsonb_array_elements(s.definitions) with ordinality as d (definition, n)
      ${isChosen(chosen)} order by s.name, d.n`)
    return rows.map((row) => candidate(scope, row))
  },
  input: ({ limits }, { args }) => ({
    input: args,
    ...(limits?.timeout_seconds !== undefined && { timeout_seconds: limits.timeout_seconds }),
  }),
  reporting: (operation, onProgress) => ({
    ...operation,
    run: (scope: WorkspaceScope, input: RemoteCall) => callRemote(scope, input, onProgress),
  }),
  toToolOutput: (output: ToolOutput) => output,
  isUntrusted: true,
}

/** Thousands of definitions are not read for a draft that has a few. */
const isChosen = (chosen: readonly string[] | undefined): Sql =>
  chosen === undefined
    ? sql``
    : sql`where s.kind || ':' || s.name || ':' || (d.definition ->> 'key') = any(${textArray(chosen)}::text[])
        or d.definition ->> 'name' = any(${textArray(chosen)}::text[])`

function candidate(scope: WorkspaceScope, { id, name: source, kind, definition }: Row): Candidate {
  const { key, hash, call, name, annotations, ...texts } = definition
  const reads = readsOnly(annotations)
  return {
    candidate: `${kind}:${source}:${key}`,
    name,
    ...texts,
    annotations,
    scope: name,
    risk: reads ? 'read' : 'write',
    binding: {
      source: 'remote',
      operation: (reads ? readSource : changeSource).name,
      fixed: { ws: scope.ref.workspaceId, source: id, definition: { key, hash, call } },
      arguments: 'input',
    },
  }
}
