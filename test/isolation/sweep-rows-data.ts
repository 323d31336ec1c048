/** Rows of the sweep for documents, objects and events. */

import { insertObjects } from '../support/fixtures/objects.ts'
import { call, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import type { Row, World } from './sweep-rows.ts'

const object = ({ bucket }: World) => `/v1/objects/${bucket}/secrets/plan`

const upload = ({ uploadId }: World) => `/v1/uploads/${uploadId}`

const bulkChange = ({ bulkChangeId }: World) => `/v1/collections/secrets/bulk-changes/${bulkChangeId}`

/** Of the beginning of an upload by tus. */
export const uploadHeaders = (bucket: string) => ({
  'upload-length': '6',
  'upload-metadata': `bucket ${btoa(bucket)},key ${btoa('secrets/plan')}`,
})

export const DATA_ROWS: Readonly<Record<string, Row>> = {
  'collections.list': { path: () => '/v1/collections', foreign: 'own_list' },
  'collection.create': {
    path: () => '/v1/collections/secrets/documents',
    body: () => ({ by: 'somebody' }),
    foreign: 'own_thing',
  },
  'collection.batch': {
    path: () => '/v1/collections/secrets/batch',
    body: ({ documentId }) => ({ ops: [{ op: 'update', id: documentId, data: { by: 'somebody' } }] }),
    foreign: 'not_found',
  },
  'batch.run': {
    path: () => '/v1/batch',
    body: ({ documentId }) => ({
      ops: [{ collection: 'secrets', op: 'update', id: documentId, data: { by: 'somebody' } }],
    }),
    foreign: 'not_found',
  },
  'collection.get': {
    path: ({ documentId }) => `/v1/collections/secrets/documents/${documentId}`,
    foreign: 'not_found',
  },
  'collection.list': { path: () => '/v1/collections/secrets/documents', foreign: 'own_list' },
  'collection.query': {
    path: () => '/v1/collections/secrets/query',
    body: () => ({ filter: { by: 'us' } }),
    foreign: 'own_list',
  },
  'collection.list_groups': {
    path: () => '/v1/collections/secrets/aggregate?select=by,n:count()',
    foreign: 'own_list',
  },
  'collection.aggregate': {
    path: () => '/v1/collections/secrets/aggregate',
    body: () => ({ group: ['by'], measures: { n: { count: true } } }),
    foreign: 'own_list',
  },
  'collection.patch': {
    path: ({ documentId }) => `/v1/collections/secrets/documents/${documentId}`,
    body: () => ({ by: 'somebody' }),
    foreign: 'not_found',
  },
  'collection.update': {
    path: ({ documentId }) => `/v1/collections/secrets/documents/${documentId}`,
    body: () => ({ by: 'somebody' }),
    foreign: 'not_found',
  },
  'collection.delete': {
    path: ({ documentId }) => `/v1/collections/secrets/documents/${documentId}`,
    foreign: 'not_found',
  },
  'collection.update_many': {
    path: () => '/v1/collections/secrets/update-many',
    body: () => ({ filter: { by: 'us' }, data: { by: 'somebody' } }),
    headers: () => ({ prefer: 'wait=20' }),
    foreign: 'own_thing',
  },
  'collection.delete_many': {
    path: () => '/v1/collections/secrets/delete-many',
    body: () => ({ filter: { by: 'nobody' } }),
    headers: () => ({ prefer: 'wait=20' }),
    foreign: 'own_thing',
  },
  'bulk_change.get': { path: bulkChange, foreign: 'not_found' },
  'bulk_change.list': { path: () => '/v1/collections/secrets/bulk-changes', foreign: 'own_list' },
  'bulk_change.cancel': { path: (world) => `${bulkChange(world)}/cancel`, foreign: 'not_found' },
  'collection.import': {
    path: () => '/v1/collections/secrets/import',
    body: () => ({ by: 'somebody' }),
    foreign: 'own_thing',
  },
  'collection.subscribe': { path: () => '/v1/collections/secrets/subscribe?by=eq.us', foreign: 'own_list' },
  'collection.export': { path: () => '/v1/collections/secrets/export', foreign: 'own_list' },
  'object.put': { path: object, body: () => 'theirs', foreign: 'denied' },
  'object.head': { path: object, foreign: 'denied' },
  'object.get': { path: object, foreign: 'denied' },
  'object.upload_form': { path: object, body: () => 'theirs', foreign: 'denied' },
  'object.presign': {
    path: ({ bucket }) => `/v1/buckets/${bucket}/presign`,
    body: () => ({ key: 'secrets/plan' }),
    foreign: 'denied',
  },
  'object.delete': { path: object, foreign: 'denied' },
  'object.describe': {
    path: ({ bucket }) => `/v1/buckets/${bucket}/object?key=secrets/plan`,
    foreign: 'denied',
  },
  'object.update': {
    path: ({ bucket }) => `/v1/buckets/${bucket}/object`,
    body: () => ({ key: 'secrets/plan', tags: { theirs: 'yes' } }),
    foreign: 'denied',
  },
  'object.copy': {
    path: ({ bucket }) => `/v1/buckets/${bucket}/copy`,
    body: () => ({ from: 'secrets/plan', to: 'secrets/copy' }),
    foreign: 'denied',
  },
  'object.move': {
    path: ({ bucket }) => `/v1/buckets/${bucket}/move`,
    body: () => ({ from: 'secrets/copy', to: 'secrets/moved' }),
    foreign: 'denied',
  },
  'object.remove_all': {
    path: ({ bucket }) => `/v1/buckets/${bucket}/delete`,
    body: () => ({ keys: ['secrets/moved'] }),
    foreign: 'denied',
  },
  'object.get_removal': { path: ({ removalId }) => `/v1/operations/${removalId}`, foreign: 'not_found' },
  'object.list': { path: ({ bucket }) => `/v1/objects/${bucket}`, foreign: 'denied' },
  'upload.create': {
    path: () => '/v1/uploads',
    headers: ({ bucket }) => uploadHeaders(bucket),
    foreign: 'denied',
  },
  'upload.head': { path: upload, foreign: 'not_found' },
  'upload.append': {
    path: upload,
    body: () => 'theirs',
    headers: () => ({ 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' }),
    foreign: 'not_found',
  },
  'upload.delete': { path: upload, foreign: 'not_found' },
  'event.publish': {
    path: () => '/v1/events/publish',
    body: () => ({ topic: 'sweep', data: 1 }),
    foreign: 'own_thing',
  },
  'event.subscribe': { path: () => '/v1/events/subscribe?topic=sweep', foreign: 'own_list' },
}

/** Removes so many objects that an operation does, and waits for its end: others count what there is. @returns its id */
export async function removeMany(workspace: TestWorkspace, bucket: string): Promise<string> {
  await insertObjects(workspace, 'many/', 1_001)
  const path = `/v1/buckets/${bucket}/delete`
  const as = workspace.service
  const { id } = (await call('POST', path, { as, body: { prefix: 'many/' } })).body
  await eventually(async () => {
    const { body } = await call('GET', `/v1/operations/${id}`, { as })
    return body.state === 'succeeded' ? true : undefined
  })
  return id
}
