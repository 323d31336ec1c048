/** Flow definitions: stores drafts in YAML even if they do not compile, and returns their diagnostics. */

import Type, { type Static } from 'typebox'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { effectOnce } from '../../access/effect-once.ts'
import { Deleted, Id, IfMatch, Input, Ref, Time } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { component, exampleOf, exampleWithout } from '../../core/components/component.ts'
import { EXAMPLE_DIGEST, EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { ADMINS, DEVELOPERS, VIEWERS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { violated } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { CATALOGUE } from '../data-operations.ts'
import {
  conflictIf,
  contentTag,
  findRow,
  listPage,
  previewOperation,
  requireMatch,
} from '../operation-helpers.ts'
import { changeTriggers, deleteTriggers, placeOf } from '../runs/triggers/trigger-store.ts'
import { inThread, type Tasks } from '../threads/run-in-thread.ts'
import { purgeFlows } from './executions/retention.ts'
import { FLOW_LIMITS } from './limits.ts'
import { declarationOf, FLOW } from './triggers/flow-triggers.ts'

export const FLOWS = '/v1/flows/workspaces/{ws}'
export const Ws = Ref('workspace')

export const FlowRef = Ref('flow, or its name')

export const Source = Type.String({
  maxLength: FLOW_LIMITS.sourceBytesMax,
  description: 'Source of the flow in YAML.',
})
export const FlowName = Type.String({
  pattern: '^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$',
  description: 'Name of the flow, unique in the workspace.',
})

export const Diagnostic = component(
  'Diagnostic',
  Type.Object({
    code: Type.String(),
    message: Type.String(),
    line: Type.Integer(),
    column: Type.Integer(),
    pointer: Type.String(),
    hint: Type.Optional(Type.String()),
    docs: Type.Optional(Type.String({ description: 'Path of the documentation page of the code.' })),
    excerpt: Type.Optional(Type.String()),
  }),
  {
    code: 'unknown_task',
    message: 'There is no task `cal`.',
    line: 6,
    column: 5,
    pointer: '/do/0/cal',
    hint: 'Did you mean `call`?',
  },
)
export type Diagnostic = Static<typeof Diagnostic>

const Flow = component(
  'Flow',
  Type.Object({
    id: Id('flow'),
    name: Type.String(),
    state: Type.Union([Type.Literal('draft'), Type.Literal('published')]),
    latest_version: Type.Integer({ description: 'Number of the latest published version. 0: none.' }),
    source: Type.String(),
    valid: Type.Boolean(),
    diagnostics: Type.Array(Diagnostic),
    created_at: Time,
    updated_at: Time,
  }),
  {
    id: EXAMPLE_ID.flow,
    name: 'confirm',
    state: 'published',
    latest_version: 2,
    source:
      'document: {dsl: 1.0.3, namespace: club, name: confirm, version: 1.0.0}\ndo:\n  - greet: {set: {message: hello}}\n',
    valid: true,
    diagnostics: [],
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
type Flow = Static<typeof Flow>

export const Warnings = Type.Array(Diagnostic, { description: 'Diagnostics that do not prevent publishing.' })

/** Identifies the draft alone: another version or another diagnostic does not change it. */
const draftTag = ({ source }: Pick<Flow, 'source'>): string => contentTag(source)

/** The response to writing a definition. */
const Written = component('WrittenFlow', Type.Object({ ...Flow.properties, warnings: Warnings }), {
  ...exampleOf(Flow),
  warnings: [],
})

/** Without the source: a page of sources would be larger than a response may be. */
const FlowSummary = component(
  'FlowSummary',
  Type.Object({
    ...Type.Omit(Flow, ['source']).properties,
    source_sha256: Type.String({ description: 'SHA-256 of the source of the draft, in hexadecimal.' }),
    has_unpublished_changes: Type.Boolean({
      description: 'True if the latest version has another source than the draft, or there is none.',
    }),
  }),
  { ...exampleWithout(Flow, 'source'), source_sha256: EXAMPLE_DIGEST, has_unpublished_changes: false },
)

type FlowRow = Omit<Flow, 'state' | 'valid'>
type ListedRow = Omit<Static<typeof FlowSummary>, 'state' | 'valid'>

const SUMMARY = sql`id, name, latest_version, diagnostics, created_at, updated_at`
const COLUMNS = sql`${SUMMARY}, source`
const LISTED = sql`${SUMMARY}, encode(sha256(convert_to(source, 'UTF8')), 'hex') as source_sha256,
  not exists (select from flow_versions v where v.flow_id = flows.id and v.version = flows.latest_version
    and v.source = flows.source) as has_unpublished_changes`

/** Compiles against the platform's function catalogue on this thread, for processes with a single user. */
export const compileFlow = (source: string) =>
  compile(source, { catalogue: CATALOGUE, sizeBytesMax: FLOW_LIMITS.sourceBytesMax })

/**
 * Processes a definition in a worker thread, against the platform's function catalogue.
 * @throws Problem `flow_too_costly` if it takes more than `flowCpuMs`; `overloaded`
 */
export async function inFlowThread<N extends 'check' | 'compile' | 'graph' | 'simulate'>(
  scope: WorkspaceScope,
  task: N,
  input: Omit<Parameters<Tasks[N]>[0], 'catalogue'>,
): Promise<ReturnType<Tasks[N]>> {
  const flow = { ...input, catalogue: CATALOGUE } as Parameters<Tasks[N]>[0]
  const ran = await inThread(scope, task, flow, FLOW_LIMITS.compileCpuMs)
  if ('value' in ran) return ran.value
  const seconds = FLOW_LIMITS.compileCpuMs / 1_000
  throw new Problem('flow_too_costly', {
    detail: `The flow took more than ${seconds} s of CPU time, or too much memory.`,
  })
}

export const checkFlow = (scope: WorkspaceScope, source: string) => inFlowThread(scope, 'check', { source })

function toFlow<R extends Pick<FlowRow, 'latest_version' | 'diagnostics'>>(row: R) {
  const state = row.latest_version > 0 ? ('published' as const) : ('draft' as const)
  return { ...row, state, valid: row.diagnostics.length === 0 }
}

/** A condition on flows that are not deleted. `{flow}` in paths is an id or a name. */
const isFlow = (flow: string): Sql => sql`(id = ${flow} or name = ${flow}) and deleted_at is null`

export const findFlow = (scope: WorkspaceScope, flow: string) =>
  findRow<FlowRow>(scope, 'flow', sql`select ${COLUMNS} from flows where ${isFlow(flow)}`)

export const listFlows = previewOperation({
  name: 'flow.list',
  roles: VIEWERS,
  summary: 'List flow definitions, without their sources',
  input: Input({ ...PageInput, ws: Ws }),
  output: PageOf(FlowSummary),
  http: { method: 'GET', path: `${FLOWS}/definitions` },
  run: async (scope, input) => {
    const { data, page } = await listPage<ListedRow>(
      scope,
      input,
      sql`select ${LISTED} from flows where deleted_at is null`,
    )
    return { data: data.map(toFlow), page }
  },
})

export const createFlow = previewOperation({
  name: 'flow.create',
  roles: DEVELOPERS,
  summary: 'Create a flow definition (a draft)',
  input: Input({ ws: Ws, name: Type.Optional(FlowName), source: Source }),
  output: Written,
  http: {
    method: 'POST',
    path: `${FLOWS}/definitions`,
    body: '*',
    texts: { 'application/yaml': 'source' },
    etag: draftTag,
    status: () => 201,
  },
  run: async (scope, { name, source }) => {
    const { diagnostics, warnings, name: own } = await checkFlow(scope, source)
    const named = name ?? own
    if (named === undefined) throw flowInvalid(diagnostics)
    const insert = sql`insert into flows (id, name, source, diagnostics)
      values (${scope.newId('flow')}, ${named}, ${source}, ${JSON.stringify(diagnostics)}) returning ${COLUMNS}`
    return effectOnce(scope, async (inside) => {
      const row = await inside
        .row<FlowRow>(insert)
        .catch(conflictIf({ flows_tenant_id_workspace_id_name_key: `A flow named ${named} already exists.` }))
      if (row === undefined) throw new Problem('internal')
      return { ...toFlow(row), warnings: [...warnings] }
    })
  },
})

export const getFlow = previewOperation({
  name: 'flow.get',
  roles: VIEWERS,
  summary: 'Read a flow definition',
  input: Input({ ws: Ws, flow: FlowRef }),
  output: Flow,
  http: { method: 'GET', path: `${FLOWS}/definitions/{flow}`, etag: draftTag },
  run: async (scope, { flow }) => toFlow(await findFlow(scope, flow)),
})

export const updateFlow = previewOperation({
  name: 'flow.update',
  roles: DEVELOPERS,
  summary: 'Replace the draft of a flow; published versions do not change',
  input: Input({ ws: Ws, flow: FlowRef, source: Source, if_match: Type.Optional(IfMatch('draft')) }),
  output: Written,
  http: {
    method: 'PUT',
    path: `${FLOWS}/definitions/{flow}`,
    body: '*',
    texts: { 'application/yaml': 'source' },
    headers: { if_match: 'if-match' },
    etag: draftTag,
  },
  run: async (scope, { flow, source, if_match }) => {
    const { diagnostics, warnings } = await checkFlow(scope, source)
    const expected = if_match === undefined ? null : await requireDraft(scope, flow, if_match)
    const row = await scope.row<FlowRow>(sql`
      update flows set source = ${source}, diagnostics = ${JSON.stringify(diagnostics)}, updated_at = now()
      where ${isFlow(flow)} and (${expected}::text is null or source = ${expected}) returning ${COLUMNS}`)
    if (row !== undefined) return { ...toFlow(row), warnings: [...warnings] }
    // Another request has replaced the draft since it was read, or the flow is not there.
    requireMatch(if_match && '""', draftTag(await findFlow(scope, flow)), DRAFT)
    throw notFound('flow')
  },
})

const DRAFT = 'The draft of the flow'

/** @returns the source of the draft. @throws Problem `precondition_failed`, `not_found` */
async function requireDraft(scope: WorkspaceScope, flow: string, ifMatch: string): Promise<string> {
  const draft = await findFlow(scope, flow)
  requireMatch(ifMatch, draftTag(draft), DRAFT)
  return draft.source
}

export const deleteFlow = previewOperation({
  name: 'flow.delete',
  roles: ADMINS,
  summary: 'Delete a flow; its executions are kept until the retention of the workspace removes them',
  input: Input({ ws: Ws, flow: FlowRef }),
  output: Deleted,
  http: { method: 'DELETE', path: `${FLOWS}/definitions/{flow}` },
  run: async (scope, { flow }) => {
    const { id } = await findFlow(scope, flow)
    const remove = () => scope.batch(...deleteStatements(scope, id))
    const [[locked] = [], [deleted] = []] = await changeTriggers(placeOf(scope), declarationOf(id), remove)
    if (locked === undefined) throw notFound('flow')
    if (deleted === undefined) {
      const detail = `Executions of the flow are still open (${locked['open']}): cancel them, or wait for their end.`
      throw new Problem('state_conflict', { detail })
    }
    await scope.batch(purgeFlows(sql`id = ${id}`)).catch((error: unknown) => {
      // An execution was started in between, and references its version: retention purges the flow later.
      if (violated(error) === undefined) throw error
    })
    return { id, deleted: true as const }
  },
})

/** Marks a flow and its versions as deleted, unless it has open executions. A queued execution needs its version to start. */
function deleteStatements(scope: WorkspaceScope, id: string): Sql[] {
  const open = sql`select from executions where flow_id = ${id} and ended_at is null`
  const isOpen = sql`exists (${open})`
  const deleted = sql`exists (select from flows where id = ${id} and deleted_at is not null)`
  return [
    // Locks the flow first, so that of two deletions one waits here and finds it deleted.
    sql`select id, (select count(*)::integer from (${open}) as o) as open from flows
      where id = ${id} and deleted_at is null for update`,
    sql`update flows set deleted_at = now(), updated_at = now()
      where id = ${id} and deleted_at is null and not ${isOpen} returning id`,
    // Each statement has a snapshot of its own, so what follows asks whether the flow is deleted, not again what is open.
    deleteTriggers(scope, FLOW, id, deleted),
    sql`update flow_versions set deleted_at = now() where flow_id = ${id} and ${deleted}`,
    sql`delete from flow_aliases where flow_id = ${id} and ${deleted}`,
    sql`delete from flow_intervals where flow_id = ${id} and ${deleted}`,
  ]
}

export function flowInvalid(diagnostics: readonly Diagnostic[]): Problem {
  const [first] = diagnostics
  const more = diagnostics.length > 1 ? ` (and ${diagnostics.length - 1} more)` : ''
  const detail =
    first === undefined ? 'The flow has no name.' : `${first.line}:${first.column} ${first.message}${more}`
  return new Problem('flow_invalid', { detail, members: { diagnostics } })
}
