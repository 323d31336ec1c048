/** Operations on sets of declarations: export, plan and apply. */

import Type, { type Static } from 'typebox'
import { adminOperation, Input, Ref } from '../../../access/operation-builders.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_DIGEST, EXAMPLE_ID } from '../../../core/components/examples.ts'
import { DEVELOPERS, VIEWERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { findActiveWorkspace } from '../../tenants/active.ts'
import { CollectionName } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { FieldChanges } from './api-types.ts'
import { changeSchema } from './change-schema.ts'
import { declareOrAdopt, NEW_DECLARATION } from './declare-collection.ts'
import { startBuilding } from './index-build.ts'
import { EFFECTS, type Plan, planSchemas, requirePlanned, type Step } from './plan-schemas.ts'
import { readDeclarations } from './schemas-transfer.ts'

const { workspace_id, ...DECLARED } = NEW_DECLARATION
const Declarations = Type.Array(
  Type.Object({ ...DECLARED, ...FieldChanges }, { additionalProperties: false }),
  {
    maxItems: COLLECTION_LIMITS.schemasMax,
    description:
      'Declarations of collections. Members that one does not name are kept; collections that are not in the list stay as they are.',
  },
)

const PlanView = component(
  'SchemaPlan',
  Type.Object({
    changes: Type.Array(
      Type.Object({
        collection: CollectionName,
        member: Type.String({ description: 'Member of the declaration; `collection` if it is new.' }),
        effect: Type.Enum([...EFFECTS], {
          description:
            'Effect of the change. `instant`: it takes no time; `validate`: documents are read; `rewrite`: values of documents move while writers wait; `index`: an index is built; `destructive`: documents are deleted.',
        }),
        detail: Type.String(),
      }),
      { description: 'Changes in their order. Without any, applying the plan does nothing.' },
    ),
    fingerprint: Type.String({ description: 'Fingerprint of the plan, for `POST /v1/schemas/apply`.' }),
  }),
  {
    changes: [
      { collection: 'courts', member: 'schema', effect: 'instant', detail: 'The field surface is added.' },
    ],
    fingerprint: EXAMPLE_DIGEST,
  },
)

const viewOf = ({ steps, fingerprint }: Plan) => ({
  changes: steps.flatMap(({ changes }) => [...changes]),
  fingerprint,
})

export const exportSchemas = adminOperation({
  name: 'schema.export',
  summary: 'Export the declarations of a workspace as they are requested',
  roles: VIEWERS,
  input: Input({ workspace_id: Ref('workspace') }),
  output: component(
    'SchemaExport',
    Type.Object({ schemas: Type.Array(Type.Record(Type.String(), Type.Unknown())) }),
    {
      schemas: [
        { collection: 'courts', schema: { type: 'object', properties: { name: { type: 'string' } } } },
      ],
    },
  ),
  reads: true,
  http: { method: 'GET', path: '/v1/schemas/export' },
  run: async (scope, { workspace_id: id }) => ({
    schemas: await readDeclarations(scope, await findActiveWorkspace(scope, id)),
  }),
})

export const planDeclarations = adminOperation({
  name: 'schema.plan',
  summary: 'Preview the changes that a set of declarations makes, with their effects',
  roles: DEVELOPERS,
  reads: true,
  input: Input({ workspace_id, schemas: Declarations }),
  output: PlanView,
  http: { method: 'POST', path: '/v1/schemas/plan', body: '*' },
  run: async (scope, { workspace_id: id, schemas }) =>
    viewOf(await planSchemas(scope, await findActiveWorkspace(scope, id), schemas)),
})

const Applied = component(
  'AppliedSchema',
  Type.Object({
    collection: CollectionName,
    schema_id: Type.String(),
    revision: Type.Integer(),
    operation_id: Type.Optional(
      Type.String({ description: 'Operation that builds the indexes of the collection.' }),
    ),
  }),
  { collection: 'courts', schema_id: EXAMPLE_ID.schema, revision: 4 },
)
type Applied = Static<typeof Applied>

export const applySchemas = adminOperation({
  name: 'schema.apply',
  summary: 'Update collections by a set of declarations, as planned',
  roles: DEVELOPERS,
  input: Input({
    workspace_id,
    schemas: Declarations,
    fingerprint: Type.String({
      maxLength: 100,
      description:
        'Fingerprint of the plan of these declarations. If anything has changed since, nothing is done.',
    }),
  }),
  output: component('AppliedSchemas', Type.Object({ applied: Type.Array(Applied) }), {
    applied: [exampleOf(Applied)],
  }),
  http: { method: 'POST', path: '/v1/schemas/apply', body: '*' },
  run: async (scope, { workspace_id: id, schemas, fingerprint }) => {
    const ref = await findActiveWorkspace(scope, id)
    const plan = await planSchemas(scope, ref, schemas)
    requirePlanned(plan, fingerprint)
    const applied: Applied[] = []
    for (const step of plan.steps) {
      try {
        applied.push(await applyStep(scope, ref, step))
      } catch (error) {
        throw error instanceof Problem ? partly(error, step, applied) : error
      }
    }
    return { applied }
  },
})

/** The changes that were made before one that was refused stay; planned again, they are not among those that are left. */
function partly(problem: Problem, { declaration, row }: Step, applied: readonly Applied[]): Problem {
  const { collection } = declaration
  if (problem.code === 'conflict' || (problem.code === 'not_found' && row !== undefined))
    return new Problem('plan_outdated', {
      detail: `${collection} was changed by another request at the same time.`,
      members: { applied },
      cause: problem,
    })
  return problem
    .changed({ detail: `${collection}: ${problem.message}` })
    .with({ collection, ...(applied.length > 0 && { applied }) })
}

async function applyStep(scope: AdminScope, ref: WorkspaceRef, { declaration, row }: Step) {
  const { renamed_from, backfill, ...declared } = declaration
  const { schema, building } =
    row === undefined
      ? await declareOrAdopt(scope, { workspace_id: ref.workspaceId, ...declared }, { isPart: true })
      : await changeSchema(scope, row.id, { ...declaration, revision: row.revision })
  if (building !== undefined) await startBuilding(scope, building, 0)
  const { collection, id: schema_id, revision } = schema
  return {
    ...{ collection, schema_id, revision },
    ...(building !== undefined && { operation_id: building.input.operation_id }),
  }
}
