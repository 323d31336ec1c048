/** Operations on whole collections: drop, truncate and rename. */

import Type from 'typebox'
import { adminOperation, Input, Ref } from '../../../access/operation-builders.ts'
import { component } from '../../../core/components/component.ts'
import { ADMINS, DEVELOPERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { findActiveWorkspace } from '../../tenants/active.ts'
import { CollectionName } from '../document.ts'
import {
  dropCollection as drop,
  renameCollection as rename,
  truncateCollection as truncate,
} from './whole-collection.ts'

const OF_COLLECTION = { name: CollectionName, workspace_id: Ref('workspace') }
const CONFIRMED = {
  ...OF_COLLECTION,
  confirm: Type.String({
    maxLength: 200,
    description: 'Name of the collection once more, since this cannot be undone.',
  }),
}

export const dropCollection = adminOperation({
  name: 'collection.drop',
  summary: 'Drop a collection: delete its documents, its declaration and its indexes',
  roles: ADMINS,
  recentProof: true,
  input: Input(CONFIRMED),
  output: component('DroppedCollection', Type.Object({ name: CollectionName, dropped: Type.Literal(true) }), {
    name: 'bookings',
    dropped: true,
  }),
  http: { method: 'DELETE', path: '/v1/collections/{name}' },
  run: async (scope, { name, workspace_id, confirm }) => {
    requireConfirmed(name, confirm)
    return drop(scope, { ref: await findActiveWorkspace(scope, workspace_id), name })
  },
})

export const truncateCollection = adminOperation({
  name: 'collection.truncate',
  summary: 'Truncate a collection: delete all of its documents, and keep its declaration',
  roles: ADMINS,
  recentProof: true,
  input: Input(CONFIRMED),
  output: component(
    'TruncatedCollection',
    Type.Object({ name: CollectionName, truncated: Type.Literal(true) }),
    { name: 'bookings', truncated: true },
  ),
  http: { method: 'POST', path: '/v1/collections/{name}/truncate' },
  run: async (scope, { name, workspace_id, confirm }) => {
    requireConfirmed(name, confirm)
    return truncate(scope, { ref: await findActiveWorkspace(scope, workspace_id), name })
  },
})

export const renameCollection = adminOperation({
  name: 'collection.rename',
  summary: 'Rename a collection; references and lookups of other declarations follow',
  roles: DEVELOPERS,
  input: Input({ ...OF_COLLECTION, to: CollectionName }),
  output: component(
    'RenamedCollection',
    Type.Object({ name: CollectionName, renamed_from: CollectionName }),
    { name: 'reservations', renamed_from: 'bookings' },
  ),
  http: { method: 'POST', path: '/v1/collections/{name}/rename', body: '*' },
  run: async (scope, { name, workspace_id, to }) => {
    if (to === name)
      throw bodyProblem('/to', 'is the present name', 'to is the present name of the collection.')
    return rename(scope, { ref: await findActiveWorkspace(scope, workspace_id), name }, to)
  },
})

function requireConfirmed(name: string, confirm: string): void {
  if (confirm === name) return
  const detail = 'is not the name of the collection'
  throw new Problem('validation_failed', {
    detail: `confirm ${detail}. Nothing was changed.`,
    errors: [{ in: 'query', name: 'confirm', pointer: '/confirm', detail }],
  })
}
