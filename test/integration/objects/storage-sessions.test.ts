/** Sessions of workspaces at the object store, checked at the store: each for exactly one bucket, none without a bucket. */

import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutBucketPolicyCommand,
  PutBucketTaggingCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { AssumeRoleCommand, STSClient } from '@aws-sdk/client-sts'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { parseConfig } from '../../../src/infra/config.ts'
import { Buckets } from '../../../src/infra/s3/buckets.ts'
import { rootOf } from '../../../src/infra/s3/options.ts'
import { policyFor } from '../../../src/infra/s3/sessions.ts'
import { clientOf, rootClient, s3With } from '../../support/clients/object-store.ts'
import {
  addTestWorkspaceWithStorage,
  asSuperuser,
  call,
  createTestWorkspaceWithStorage as createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { startRefusingStore } from '../../support/servers/refusing-store.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const config = () => parseConfig(inject('tenon').env)
const DENIED = { $metadata: expect.objectContaining({ httpStatusCode: 403 }), name: 'AccessDenied' }

let testWorkspace: TestWorkspace
let other: TestWorkspace
let own: string
let foreign: string
beforeAll(async () => {
  ;[testWorkspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ;[own, foreign] = await Promise.all([bucketOf(testWorkspace), bucketOf(other)])
  await call('PUT', `/v1/objects/${foreign}/k`, { as: other.service, body: '"theirs"' })
})

/** Every request of a session that names a bucket. */
const requestsIn = (s3: S3Client, Bucket: string, Key = 'k') => ({
  put: () => s3.send(new PutObjectCommand({ Bucket, Key, Body: 'x' })),
  get: () => s3.send(new GetObjectCommand({ Bucket, Key })),
  list: () => s3.send(new ListObjectsV2Command({ Bucket })),
  delete: () => s3.send(new DeleteObjectCommand({ Bucket, Key })),
})

/** A session as the role gives it: with its name, and the session policy or without one. */
async function assume(RoleSessionName: string, Policy?: string): Promise<S3Client> {
  const { S3_ENDPOINT: endpoint, S3_REGION: region, S3_ROLE_ARN: RoleArn } = config()
  const sts = new STSClient({ endpoint, region, credentials: rootOf(config()) })
  const { Credentials } = await sts.send(new AssumeRoleCommand({ RoleArn, RoleSessionName, Policy }))
  const { AccessKeyId = '', SecretAccessKey = '', SessionToken = '' } = Credentials ?? {}
  return s3With({ accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken })
}

describe('rights of a session', () => {
  test('own bucket: objects are served; its administration and other buckets: refused', async () => {
    const s3 = await clientOf(testWorkspace)
    for (const request of Object.values(requestsIn(s3, own))) await request()
    const ownObject = { Bucket: own, Key: 'k' }
    const Tagging = { TagSet: [{ Key: 'tenon-workspace', Value: other.workspaceId }] }
    const refused = {
      ...requestsIn(s3, foreign),
      payloads: () => s3.send(new PutObjectCommand({ Bucket: 'tenon-payloads', Key: 'k', Body: 'x' })),
      copy: () => s3.send(new CopyObjectCommand({ ...ownObject, CopySource: `${foreign}/k` })),
      create: () => s3.send(new CreateBucketCommand({ Bucket: `${own.slice(0, 50)}-2` })),
      drop: () => s3.send(new DeleteBucketCommand({ Bucket: own })),
      policy: () => s3.send(new PutBucketPolicyCommand({ Bucket: own, Policy: '{}' })),
      tag: () => s3.send(new PutBucketTaggingCommand({ Bucket: own, Tagging })),
    }
    for (const [name, request] of Object.entries(refused))
      await expect(request(), name).rejects.toMatchObject(DENIED)
    expect((await call('GET', `/v1/objects/${foreign}/k`, { as: other.service })).body).toBe('theirs')
  })

  test('each of the two fences alone: refuses other buckets', async () => {
    const byRole = await assume(own)
    for (const request of Object.values(requestsIn(byRole, own))) await request()
    for (const [name, request] of Object.entries(requestsIn(byRole, foreign)))
      await expect(request(), name).rejects.toMatchObject(DENIED)
    // Named after the other bucket, with the policy of the own one: neither is in both.
    const crossed = await assume(foreign, policyFor(own))
    for (const bucket of [own, foreign])
      for (const [name, request] of Object.entries(requestsIn(crossed, bucket)))
        await expect(request(), `${name} in ${bucket}`).rejects.toMatchObject(DENIED)
  })

  test('session: opens no other session', async () => {
    const { S3_ENDPOINT: endpoint, S3_REGION: region, S3_ROLE_ARN: RoleArn } = config()
    const { credentials } = (await clientOf(testWorkspace)).config
    const sts = new STSClient({ endpoint, region, credentials, maxAttempts: 1 })
    const asked = sts.send(new AssumeRoleCommand({ RoleArn, RoleSessionName: foreign }))
    await expect(asked).rejects.toMatchObject({ $metadata: { httpStatusCode: 403 } })
  })

  test('bucket whose name begins with the own name: refused', async () => {
    const bucket = `${own.slice(0, 60)}-x`
    const body = { tenant_id: testWorkspace.tenantId, name: 'W', slug: unique('w'), bucket }
    const headers = { prefer: 'wait=30' }
    const made = await call('POST', '/v1/workspaces', { as: testWorkspace.operator, headers, body })
    expect(made.status).toBe(201)
    const reply = await call('GET', `/v1/objects/${bucket}/k`, { as: testWorkspace.service })
    expect([reply.status, reply.body.code]).toEqual([403, 'AccessDenied'])
  })

  test.each([null, '', '*', 'a*', 'bucket/*', 'a b', '${aws:username}', 'tenon-payloads'])(
    'session policy: bucket name %j: refused',
    (bucket) => {
      expect(() => policyFor(bucket)).toThrow()
    },
  )

  test('session policy: valid bucket: names the bucket and its contents, and no administration', () => {
    const { Statement } = JSON.parse(policyFor('acme-files'))
    expect(Statement.flatMap(({ Resource }: { Resource: string[] }) => Resource)).toEqual([
      'arn:aws:s3:::acme-files/*',
      'arn:aws:s3:::acme-files',
    ])
    expect(JSON.stringify(Statement)).not.toContain('s3:*')
  })
})

describe('a new bucket', () => {
  test('made again by its owner: done, and still empty; by another: conflict', async () => {
    const made = await createTestWorkspace()
    const Bucket = await bucketOf(made)
    const buckets = new Buckets(config(), (work) => work())
    await buckets.make(Bucket, made.workspaceId)
    await expect(buckets.make(Bucket, other.workspaceId)).rejects.toMatchObject({ code: 'conflict' })
    buckets.close()
    expect((await rootClient().send(new ListObjectsV2Command({ Bucket }))).KeyCount).toBe(0)
    expect((await call('GET', `/v1/objects/${Bucket}`, { as: made.service })).body.data).toEqual([])
  })

  test('twelve workspaces at once: all are active, and serve objects', async () => {
    const of = { tenantId: testWorkspace.tenantId, operator: testWorkspace.operator }
    const made = await Promise.all(Array.from({ length: 12 }, () => addTestWorkspaceWithStorage(of)))
    const written = made.map(async (each) =>
      call('PUT', `/v1/objects/${await bucketOf(each)}/k`, { as: each.service, body: {} }),
    )
    expect((await Promise.all(written)).map(({ status }) => status)).toEqual(made.map(() => 201))
  })
})

describe('without a bucket', () => {
  test('any object operation: bucket_required, nothing is written', async () => {
    const body = { tenant_id: testWorkspace.tenantId, name: 'W', slug: unique('w'), bucket: null }
    const headers = { prefer: 'wait=30' }
    const made = await call('POST', '/v1/workspaces', { as: testWorkspace.operator, headers, body })
    expect([made.status, made.body.bucket, made.body.state]).toEqual([201, null, 'active'])
    const key = { workspace_id: made.body.id, kind: 'service', name: 'x' }
    const as = {
      apikey: (await call('POST', '/v1/api-keys', { as: testWorkspace.operator, body: key })).body.key,
    }
    for (const path of [`/v1/objects/${own}/k`, `/v1/objects/${unique('b')}/k`]) {
      for (const method of ['PUT', 'GET', 'DELETE']) {
        const reply = await call(method, path, { as, ...(method === 'PUT' && { body: {} }) })
        expect([method, reply.status, reply.body.code]).toEqual([method, 409, 'bucket_required'])
      }
    }
    expect((await call('GET', `/v1/objects/${own}`, { as })).body.code).toBe('bucket_required')
    const rows = await asSuperuser('select 1 from tenon.buckets where workspace_id = $1', [made.body.id])
    expect(rows).toEqual([])
  })
})

/** Requests of the API to one object, with the status of a success, and how many requests to the store it takes. */
const apiRequests = (path: string) =>
  [
    ['PUT', path, 201, 1],
    ['HEAD', path, 200, 0],
    ['GET', path, 200, 1],
    ['GET', path.replace(/\/[^/]+$/, ''), 200, 0],
    ['DELETE', path, 200, 0],
  ] as const

test('session that the store has ended before its time: each request that needs the store opens one more, and succeeds', async () => {
  const store = await startRefusingStore(new URL(config().S3_ENDPOINT))
  const node = await startInProcessNode({ S3_ENDPOINT: store.url, S3_STS_ENDPOINT: store.url })
  try {
    for (const [method, path, status, sessions] of apiRequests(`/v1/objects/${own}/ended`)) {
      store.endSessions()
      const before = store.sessions
      const as = testWorkspace.service
      const reply = await call(method, path, { as, at: node.at, ...(method === 'PUT' && { body: {} }) })
      expect([method, reply.status, store.sessions - before]).toEqual([method, status, sessions])
    }
  } finally {
    await node.close()
    store.close()
  }
})

test('store without sessions (S3_IDENTITY=none): the platform refuses every other bucket', async () => {
  const closed = 'http://127.0.0.1:9'
  const node = await startInProcessNode({ S3_IDENTITY: 'none', S3_STS_ENDPOINT: closed })
  try {
    const as = testWorkspace.service
    for (const [method, path, status] of apiRequests(`/v1/objects/${own}/none`)) {
      const body = method === 'PUT' && { body: {} }
      expect([method, (await call(method, path, { as, at: node.at, ...body })).status]).toEqual([
        method,
        status,
      ])
      const theirs = path.replace(own, foreign)
      expect([method, (await call(method, theirs, { as, at: node.at, ...body })).status]).toEqual([
        method,
        403,
      ])
    }
    const kept = await call('GET', `/v1/objects/${foreign}/k`, { as: other.service, at: node.at })
    expect(kept.body).toBe('theirs')
  } finally {
    await node.close()
  }
})
