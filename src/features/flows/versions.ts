/** Flow versions, compiled at publish and immutable, and aliases that select one or several by weight. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { DeletedName, Id, Input, Time } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { component, exampleOf, exampleWithout } from '../../core/components/component.ts'
import { EXAMPLE_DIGEST, EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { DEVELOPERS, VIEWERS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { conflictIf, findRow, listPage, previewOperation } from '../operation-helpers.ts'
import { changeTriggers, declareTriggers, placeOf } from '../runs/triggers/trigger-store.ts'
import { createSecrets } from '../runs/triggers/webhooks.ts'
import type { Tasks } from '../threads/run-in-thread.ts'
import { AliasName, AliasTarget, VersionNumber, Weighted, weightedOf } from '../version-aliases.ts'
import { FLOWS, FlowRef, findFlow, flowInvalid, inFlowThread, Warnings, Ws } from './definitions.ts'
import { setExpectedInterval } from './executions/expectations.ts'
import { missingReferences } from './references.ts'
import { declarationOf, declaredTriggers, FLOW, webhookName } from './triggers/flow-triggers.ts'

const FlowVersion = component(
  'FlowVersion',
  Type.Object({
    flow_id: Type.String(),
    version: Type.Integer({ minimum: 1 }),
    sha256: Type.String({ description: 'SHA-256 of the compiled form.' }),
    source: Type.String(),
    created_by: Type.String(),
    created_at: Time,
  }),
  {
    flow_id: EXAMPLE_ID.flow,
    version: 2,
    sha256: EXAMPLE_DIGEST,
    source:
      'document: {dsl: 1.0.3, namespace: club, name: confirm, version: 1.0.0}\ndo:\n  - greet: {set: {message: hello}}\n',
    created_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
  },
)
type FlowVersion = Static<typeof FlowVersion>

/** Without the source, as in lists of flows. */
const FlowVersionSummary = component(
  'FlowVersionSummary',
  Type.Omit(FlowVersion, ['source']),
  exampleWithout(FlowVersion, 'source'),
)
type FlowVersionSummary = Static<typeof FlowVersionSummary>

/** The response to publishing. */
const Published = component(
  'PublishedFlowVersion',
  Type.Object({
    ...FlowVersion.properties,
    warnings: Warnings,
    webhooks: Type.Optional(
      Type.Array(
        Type.Object({
          id: Id('trg'),
          name: Type.String(),
          url: Type.String(),
          secret: Type.Optional(Type.String({ description: 'Secret of a new webhook, shown only once.' })),
        }),
        { description: 'Webhooks of the version; absent if the flow declares none.' },
      ),
    ),
  }),
  {
    ...exampleOf(FlowVersion),
    warnings: [],
    webhooks: [
      {
        id: EXAMPLE_ID.trigger,
        name: 'payment',
        url: 'https://api.tennis.example/webhooks/payment',
        secret: 'shown once',
      },
    ],
  },
)

const SUMMARY = sql`flow_id, version, sha256, created_by, created_at`
const COLUMNS = sql`${SUMMARY}, source`

export const publishFlow = previewOperation({
  name: 'flow_version.create',
  roles: DEVELOPERS,
  summary: 'Publish the draft of a flow as the next version',
  input: Input({ ws: Ws, flow: FlowRef }),
  output: Published,
  http: { method: 'POST', path: `${FLOWS}/definitions/{flow}/versions`, body: '*', status: () => 201 },
  run: async (scope, { flow }) => {
    const { id, source, latest_version } = await findFlow(scope, flow)
    const compiled = await inFlowThread(scope, 'compile', { source })
    if (compiled.flow === undefined) throw flowInvalid(compiled.diagnostics)
    const { warnings } = compiled
    const { head: ir, references } = compiled.flow
    const { diagnostics: missing, warnings: unpublished } = await missingReferences(scope, references)
    if (missing.length > 0) throw flowInvalid(missing)
    const triggers = declarationOf(id, declaredTriggers(ir))
    const place = placeOf(scope)
    const secretsOfWebhooks = createSecrets(scope, { kind: FLOW.kind, id }, triggers.triggers)
    const statements = [
      sql`update flows set latest_version = ${latest_version + 1}, updated_at = now()
        where id = ${id} and deleted_at is null`,
      sql`${insertVersion({ flowId: id, version: latest_version + 1, source, by: scope.actor.subject }, compiled.flow)}
        returning ${COLUMNS}`,
      ...(await declareTriggers(place, triggers)),
      setExpectedInterval(id, ir.expect?.intervalMs),
      secretsOfWebhooks.statement,
    ]
    const publish = async (inside: WorkspaceScope) => {
      const answers = await publishStatements(inside, statements)
      const [version] = answers[1] ?? []
      if (version === undefined) throw notFound('flow')
      const webhooks = secretsOfWebhooks
        .toWebhooks(answers.at(-1) ?? [])
        .map(({ id: webhookId, key, ...more }) => ({ id: webhookId, name: webhookName(key), ...more }))
      const published = { ...(version as unknown as FlowVersion), warnings: [...warnings, ...unpublished] }
      return { ...published, ...(webhooks.length > 0 && { webhooks }) }
    }
    return changeTriggers(place, triggers, () => effectOnce(scope, publish))
  },
})

export type CompiledFlow = NonNullable<ReturnType<Tasks['compile']>['flow']>

interface NewVersion {
  readonly flowId: string
  readonly version: number
  readonly source: string
  readonly by: string
}

/** Inserts a version of a flow that is not deleted. */
export const insertVersion = (
  { flowId, version, source, by }: NewVersion,
  { head: ir, text, sha256, references: { secrets } }: CompiledFlow,
): Sql => sql`
  insert into flow_versions
    (flow_id, version, sha256, source, ir, namespace, document_name, document_version, secrets, concurrency,
      checks_input, expected_duration_ms, created_by)
  select ${flowId}, ${version}, ${sha256}, ${source}, ${text}, ${ir.document.namespace},
    ${ir.document.name}, ${ir.document.version}, ${textArray(secrets.map(({ name }) => name))}::text[],
    ${ir.concurrency ?? null}::jsonb, ${ir.input?.schema !== undefined}::boolean,
    ${ir.expect?.durationMs ?? null}::bigint, ${by}
  from flows where id = ${flowId} and deleted_at is null`

/** Of two concurrent requests with the same latest version, the primary key accepts one. @throws Problem `conflict` */
const publishStatements = (scope: WorkspaceScope, statements: readonly Sql[]) =>
  scope
    .batch(...statements)
    .catch(conflictIf({ flow_versions_pkey: 'The flow was published by another request at the same time.' }))

export const listFlowVersions = previewOperation({
  name: 'flow_version.list',
  roles: VIEWERS,
  summary: 'List published versions of a flow, oldest first, without their sources',
  input: Input({ ...PageInput, ws: Ws, flow: FlowRef }),
  output: PageOf(FlowVersionSummary),
  http: { method: 'GET', path: `${FLOWS}/definitions/{flow}/versions` },
  run: async (scope, input) => {
    const { id } = await findFlow(scope, input.flow)
    const { after, limit } = pageBounds(input)
    if (!/^[0-9]{0,9}$/.test(after)) throw new Problem('cursor_invalid')
    const rows = await scope.rows<FlowVersionSummary>(sql`
      select ${SUMMARY} from flow_versions
      where flow_id = ${id} and version > ${Number(after || 0)} order by version limit ${limit}`)
    return pageFrom(input, rows, ({ version }) => version)
  },
})

export const getFlowVersion = previewOperation({
  name: 'flow_version.get',
  roles: VIEWERS,
  summary: 'Read a published version of a flow',
  input: Input({
    ws: Ws,
    flow: FlowRef,
    version: VersionNumber,
  }),
  output: FlowVersion,
  http: { method: 'GET', path: `${FLOWS}/definitions/{flow}/versions/{version}` },
  run: async (scope, { flow, version }) => {
    const { id } = await findFlow(scope, flow)
    return findRow<FlowVersion>(
      scope,
      'flow version',
      sql`select ${COLUMNS} from flow_versions where flow_id = ${id} and version = ${version}`,
    )
  },
})

const FlowAlias = component(
  'FlowAlias',
  Type.Object({
    flow_id: Type.String(),
    name: Type.String(),
    versions: Type.Array(Weighted),
    updated_by: Type.String(),
    created_at: Time,
    updated_at: Time,
  }),
  {
    flow_id: EXAMPLE_ID.flow,
    name: 'production',
    versions: [{ version: 2, weight: 1 }],
    updated_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
type FlowAlias = Static<typeof FlowAlias>

const ALIAS_COLUMNS = sql`flow_id, name, versions, updated_by, created_at, updated_at`
const ALIASES = `${FLOWS}/definitions/{flow}/aliases`

export const listFlowAliases = previewOperation({
  name: 'flow_alias.list',
  roles: VIEWERS,
  summary: 'List the aliases of a flow',
  input: Input({ ...PageInput, ws: Ws, flow: FlowRef }),
  output: PageOf(FlowAlias),
  http: { method: 'GET', path: ALIASES },
  run: async (scope, input) => {
    const { id } = await findFlow(scope, input.flow)
    const aliases = sql`select ${ALIAS_COLUMNS} from flow_aliases where flow_id = ${id}`
    return listPage<FlowAlias>(scope, input, aliases, 'name')
  },
})

export const getFlowAlias = previewOperation({
  name: 'flow_alias.get',
  roles: VIEWERS,
  summary: 'Read an alias of a flow',
  input: Input({ ws: Ws, flow: FlowRef, name: AliasName }),
  output: FlowAlias,
  http: { method: 'GET', path: `${ALIASES}/{name}` },
  run: async (scope, { flow, name }) => {
    const { id } = await findFlow(scope, flow)
    return findRow<FlowAlias>(
      scope,
      'flow alias',
      sql`select ${ALIAS_COLUMNS} from flow_aliases where flow_id = ${id} and name = ${name}`,
    )
  },
})

export const setFlowAlias = previewOperation({
  name: 'flow_alias.set',
  roles: DEVELOPERS,
  summary:
    'Set an alias to a version of a flow, or to several by weight; running executions keep their version',
  input: Input({
    ws: Ws,
    flow: FlowRef,
    name: AliasName,
    ...AliasTarget,
  }),
  output: FlowAlias,
  http: { method: 'PUT', path: `${ALIASES}/{name}`, body: '*' },
  run: async (scope, { flow, name, version, versions }) => {
    const meant = JSON.stringify(weightedOf(version, versions))
    const { id } = await findFlow(scope, flow)
    return findRow<FlowAlias>(
      scope,
      'flow version',
      sql`
      insert into flow_aliases as a (flow_id, name, versions, updated_by)
      select ${id}, ${name}, ${meant}::jsonb, ${scope.actor.subject}
      where not exists (select from jsonb_to_recordset(${meant}::jsonb) as m (version integer)
        where not exists (select from flow_versions v where v.flow_id = ${id} and v.version = m.version))
      on conflict (tenant_id, workspace_id, flow_id, name) do update
        set versions = excluded.versions, updated_by = excluded.updated_by, updated_at = now()
      returning ${ALIAS_COLUMNS}`,
    )
  },
})

export const deleteFlowAlias = previewOperation({
  name: 'flow_alias.delete',
  roles: DEVELOPERS,
  summary: 'Delete an alias of a flow; its versions are kept',
  input: Input({ ws: Ws, flow: FlowRef, name: AliasName }),
  output: DeletedName,
  http: { method: 'DELETE', path: `${ALIASES}/{name}` },
  run: async (scope, { flow, name }) => {
    const { id } = await findFlow(scope, flow)
    await findRow(
      scope,
      'flow alias',
      sql`delete from flow_aliases where flow_id = ${id} and name = ${name} returning name`,
    )
    return { name, deleted: true as const }
  },
})
