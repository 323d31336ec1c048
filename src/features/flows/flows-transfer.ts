/** Reads and stores all flows of a workspace for archives, with their versions. Definitions are compiled anew. */

import Type, { type Static } from 'typebox'
import type { WorkspaceScope } from '../../access/scope.ts'
import { notFound } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { allRows } from '../operation-helpers.ts'
import type { DeclaredTrigger } from '../runs/triggers/trigger.ts'
import { changeTriggers, declareTriggers, placeOf } from '../runs/triggers/trigger-store.ts'
import { createSecrets } from '../runs/triggers/webhooks.ts'
import { AliasLine, VersionNumber } from '../version-aliases.ts'
import { checkFlow, FlowName, flowInvalid, inFlowThread, Source } from './definitions.ts'
import { setExpectedInterval } from './executions/expectations.ts'
import { declarationOf, declaredTriggers, FLOW, webhookName } from './triggers/flow-triggers.ts'
import { type CompiledFlow, insertVersion } from './versions.ts'

const PAGE = 50
const Id = Type.String({ pattern: '^flow_[0-9a-hjkmnp-tv-z]{26}$' })

/** A flow in an archive, with its draft. */
export const FlowLine = Type.Object(
  {
    id: Id,
    name: FlowName,
    source: Source,
    /** 0: it has no version. */
    latest_version: Type.Integer({ minimum: 0, maximum: 2_147_483_647 }),
    aliases: Type.Array(AliasLine),
  },
  { additionalProperties: false },
)
export type FlowLine = Static<typeof FlowLine>

/** A version of a flow in an archive. */
export const FlowVersionLine = Type.Object(
  { flow_id: Id, version: VersionNumber, source: Source },
  { additionalProperties: false },
)
export type FlowVersionLine = Static<typeof FlowVersionLine>

/** In the order of their ids. @param structure scope with the rights of an admin */
export const allFlows = (structure: WorkspaceScope): AsyncGenerator<FlowLine> =>
  allRows(
    PAGE,
    (after) =>
      structure.rows<FlowLine>(sql`
        select id, name, source, latest_version, (
          select coalesce(jsonb_agg(jsonb_build_object('name', a.name, 'versions', a.versions) order by a.name), '[]')
          from flow_aliases a where a.flow_id = f.id) as aliases
        from flows f where deleted_at is null and id > ${after} order by id limit ${PAGE}`),
    ({ id }) => id,
  )

/** All versions of a flow, oldest first. */
export async function* allFlowVersions(
  structure: WorkspaceScope,
  flowId: string,
): AsyncGenerator<FlowVersionLine> {
  for (let version = 0; ; ) {
    const found = await structure.row<FlowVersionLine>(sql`
      select flow_id, version, source from flow_versions
      where flow_id = ${flowId} and deleted_at is null and version > ${version} order by version limit 1`)
    if (found === undefined) return
    yield found
    version = found.version
  }
}

/** The names of the secrets of flows and functions. */
export const secretNames = (structure: WorkspaceScope): AsyncGenerator<{ readonly name: string }> =>
  allRows(
    PAGE,
    (after) =>
      structure.rows<{ name: string }>(
        sql`select name from flow_secrets where name > ${after} order by name limit ${PAGE}`,
      ),
    ({ name }) => name,
  )

/**
 * Stores a flow of an archive without its versions. It may be repeated.
 * @param structure scope of the new workspace with the rights of an admin
 * @throws Problem `flow_too_costly`, `quota_exceeded`
 */
export async function restoreFlow(
  structure: WorkspaceScope,
  { id, name, source, latest_version, aliases }: FlowLine,
): Promise<void> {
  const { diagnostics } = await checkFlow(structure, source)
  const { subject } = structure.actor
  await structure.batch(
    sql`insert into flows (id, name, source, diagnostics, latest_version)
      values (${id}, ${name}, ${source}, ${JSON.stringify(diagnostics)}, ${latest_version})
      on conflict (tenant_id, workspace_id, id) do nothing`,
    sql`insert into flow_aliases (flow_id, name, versions, updated_by)
      select ${id}, a.name, a.versions, ${subject}
      from jsonb_to_recordset(${JSON.stringify(aliases)}::jsonb) as a (name text, versions jsonb)
      on conflict do nothing`,
  )
}

/**
 * Stores a version of a flow that was restored; the latest one with its triggers. It may be repeated.
 * @param declaredAs changes what the definition declares
 * @returns the webhooks that it has declared
 * @throws Problem `flow_invalid`, `flow_too_costly`, `not_found` if the archive has no such flow, `dependency_unavailable`
 */
export async function restoreFlowVersion(
  structure: WorkspaceScope,
  { flow_id: flowId, version, source }: FlowVersionLine,
  declaredAs: (trigger: DeclaredTrigger) => DeclaredTrigger,
): Promise<string[]> {
  const flow = await structure.row<{ name: string; latest_version: number }>(
    sql`select name, latest_version from flows where id = ${flowId}`,
  )
  if (flow === undefined) throw notFound('flow')
  const compiled = await inFlowThread(structure, 'compile', { source })
  if (compiled.flow === undefined) throw flowInvalid(compiled.diagnostics)
  const own = { flowId, version, source, by: structure.actor.subject }
  const insert = sql`${insertVersion(own, compiled.flow)} on conflict do nothing`
  if (version !== flow.latest_version) {
    await structure.batch(insert)
    return []
  }
  const triggers = declaredTriggers(compiled.flow.head).map(declaredAs)
  await declare(structure, { flowId, triggers, head: compiled.flow.head }, insert)
  return triggers
    .filter(({ kind }) => kind === 'webhook')
    .map(({ key }) => `webhook ${webhookName(key)} of the flow ${flow.name}`)
}

interface Declaring {
  readonly flowId: string
  readonly triggers: readonly DeclaredTrigger[]
  readonly head: CompiledFlow['head']
}

async function declare(
  structure: WorkspaceScope,
  { flowId, triggers, head }: Declaring,
  insert: ReturnType<typeof sql>,
): Promise<void> {
  const place = placeOf(structure)
  const declaration = declarationOf(flowId, triggers)
  const statements = [
    insert,
    ...(await declareTriggers(place, declaration)),
    setExpectedInterval(flowId, head.expect?.intervalMs),
    createSecrets(structure, { kind: FLOW.kind, id: flowId }, triggers).statement,
  ]
  await changeTriggers(place, declaration, () => structure.batch(...statements))
}
