/** The rows of the tenant sweep for declarations and whole collections. */

import { unique } from '../support/fixtures/tenants.ts'
import type { Row } from './sweep-rows.ts'

export const SCHEMA_ROWS: Readonly<Record<string, Row>> = {
  'collection.explain': {
    path: () => '/v1/collections/secrets/access/explain',
    body: ({ workspace, documentId }) => ({
      ...{ workspace_id: workspace.workspaceId, as: 'anon', op: 'read', id: documentId },
    }),
    foreign: 'not_found',
  },
  'collection.drop': {
    path: ({ workspace }) => `/v1/collections/dropped?confirm=dropped&workspace_id=${workspace.workspaceId}`,
    foreign: 'not_found',
  },
  'collection.truncate': {
    path: ({ workspace }) =>
      `/v1/collections/truncated/truncate?confirm=truncated&workspace_id=${workspace.workspaceId}`,
    foreign: 'not_found',
  },
  'collection.rename': {
    path: () => '/v1/collections/renamed/rename',
    body: ({ workspace }) => ({ workspace_id: workspace.workspaceId, to: unique('c') }),
    foreign: 'not_found',
  },
  'schema.infer': {
    path: () => '/v1/schemas/infer',
    body: ({ workspace }) => ({ workspace_id: workspace.workspaceId, collection: 'secrets' }),
    foreign: 'not_found',
  },
  'schema.export': {
    path: ({ workspace }) => `/v1/schemas/export?workspace_id=${workspace.workspaceId}`,
    foreign: 'not_found',
  },
  'schema.plan': {
    path: () => '/v1/schemas/plan',
    body: ({ workspace }) => ({ workspace_id: workspace.workspaceId, schemas: [] }),
    foreign: 'not_found',
  },
  'schema.apply': {
    path: () => '/v1/schemas/apply',
    body: ({ workspace }) => ({ workspace_id: workspace.workspaceId, schemas: [], fingerprint: 'none' }),
    foreign: 'not_found',
  },
  'schema.create': {
    path: () => '/v1/schemas',
    body: ({ workspace }) => ({
      workspace_id: workspace.workspaceId,
      collection: unique('c'),
      store: 'relational',
      schema: {},
    }),
    foreign: 'not_found',
  },
  'schema.get': { path: ({ schemaId }) => `/v1/schemas/${schemaId}`, foreign: 'not_found' },
  'schema.list': {
    path: ({ workspace }) => `/v1/schemas?workspace_id=${workspace.workspaceId}`,
    foreign: 'own_list',
  },
  'schema.update': {
    path: ({ schemaId }) => `/v1/schemas/${schemaId}`,
    body: () => ({ schema: { title: 'changed' } }),
    foreign: 'not_found',
  },
  'schema.delete': { path: ({ schemaId }) => `/v1/schemas/${schemaId}`, foreign: 'not_found' },
}
