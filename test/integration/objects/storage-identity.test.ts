/** The storage identity of a workspace, checked at the store: one key for exactly one bucket, none without a bucket. */

import {
  CreateAccessKeyCommand,
  DeleteAccessKeyCommand,
  GetUserCommand,
  IAMClient,
  ListAccessKeysCommand,
} from '@aws-sdk/client-iam'
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutBucketPolicyCommand,
  PutBucketTaggingCommand,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import { v7 } from 'uuid'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { typeId } from '../../../src/core/ids.ts'
import type { TenantId } from '../../../src/core/tenant.ts'
import { QUEUES } from '../../../src/core/work.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { Secrets } from '../../../src/infra/crypto/secrets.ts'
import { rootOf, storeOf } from '../../../src/infra/s3/clients.ts'
import { policyFor } from '../../../src/infra/s3/storage-identities.ts'
import { clientOf, identityOf } from '../../support/clients/object-store.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage as createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { openTemporal } from '../../support/stack/temporal.ts'

const config = () => parseConfig(inject('tenon').env)
const purposeOf = ({ tenantId, workspaceId }: TestWorkspace) => `storage:${tenantId}:${workspaceId}`
const userOf = ({ workspaceId }: TestWorkspace) => ({ UserName: `tenon-${workspaceId}` })

const root = () => {
  const { endpoint, region } = storeOf(config())
  return new IAMClient({ endpoint, region, credentials: rootOf(config()) })
}

const keysOf = async (of: TestWorkspace) =>
  (await root().send(new ListAccessKeysCommand(userOf(of)))).AccessKeyMetadata?.map((key) => key.AccessKeyId)

let testWorkspace: TestWorkspace
let other: TestWorkspace
beforeAll(async () => {
  ;[testWorkspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
})

describe('permissions of the identity', () => {
  test('storage identity: own bucket: allowed; other buckets and bucket administration: refused', async () => {
    const [s3, own, foreign] = await Promise.all([
      clientOf(testWorkspace),
      identityOf(testWorkspace),
      identityOf(other),
    ])
    const ownObject = { Bucket: own.bucket, Key: 'k' }
    const foreignObject = { Bucket: foreign.bucket, Key: 'k' }
    await s3.send(new PutObjectCommand({ ...ownObject, Body: 'x' }))
    expect((await s3.send(new ListObjectsV2Command(ownObject))).KeyCount).toBe(1)
    await call('PUT', `/v1/objects/${foreign.bucket}/k`, { as: other.service, body: '"theirs"' })
    const denied = { $metadata: expect.objectContaining({ httpStatusCode: 403 }), name: 'AccessDenied' }
    const tagged = {
      ...ownObject,
      Tagging: { TagSet: [{ Key: 'tenon-workspace', Value: other.workspaceId }] },
    }
    for (const work of [
      () => s3.send(new GetObjectCommand(foreignObject)),
      () => s3.send(new PutObjectCommand({ ...foreignObject, Body: 'x' })),
      () => s3.send(new ListObjectsV2Command(foreignObject)),
      () => s3.send(new CopyObjectCommand({ ...ownObject, CopySource: `${foreign.bucket}/k` })),
      () => s3.send(new CreateBucketCommand({ Bucket: `${own.bucket.slice(0, 50)}-2` })),
      () => s3.send(new DeleteBucketCommand(ownObject)),
      () => s3.send(new PutBucketPolicyCommand({ ...ownObject, Policy: '{}' })),
      () => s3.send(new PutBucketTaggingCommand(tagged)),
    ]) {
      await expect(work()).rejects.toMatchObject(denied)
    }
    expect((await call('GET', `/v1/objects/${foreign.bucket}/k`, { as: other.service })).body).toBe('theirs')
  })

  test('storage identity: bucket whose name begins with the own name: refused', async () => {
    const { bucket } = await identityOf(testWorkspace)
    const body = {
      tenant_id: testWorkspace.tenantId,
      name: 'W',
      slug: unique('w'),
      bucket: `${bucket.slice(0, 60)}-x`,
    }
    const headers = { prefer: 'wait=30' }
    expect((await call('POST', '/v1/workspaces', { as: testWorkspace.operator, headers, body })).status).toBe(
      201,
    )
    const reply = await call('GET', `/v1/objects/${body.bucket}/k`, { as: testWorkspace.service })
    expect([reply.status, reply.body.code]).toEqual([403, 'AccessDenied'])
  })

  test('storage secret: encrypted: decrypts for its own workspace only, stored nowhere else', async () => {
    const { sealed } = await identityOf(testWorkspace)
    const secrets = new Secrets(inject('tenon').masterKey)
    expect(() => secrets.open(purposeOf(other), sealed)).toThrow()
    const { bucket } = await identityOf(testWorkspace)
    const workspace = await call('GET', `/v1/workspaces/${testWorkspace.workspaceId}`, {
      as: testWorkspace.operator,
    })
    expect(workspace.body.bucket).toBe(bucket)
    expect(JSON.stringify(workspace.body)).not.toMatch(/secret|access_key/i)
  })

  test.each([null, '', '*', 'a*', 'bucket/*', 'a b', '${aws:username}'])(
    'storage policy: bucket name %j: refused',
    (bucket) => {
      expect(() => policyFor(bucket, ['read'])).toThrow()
    },
  )

  test('storage policy: valid bucket: names the bucket and its contents', () => {
    const [statement] = JSON.parse(policyFor('acme-files', ['read', 'write', 'list'])).Statement
    expect(statement.Resource).toEqual(['arn:aws:s3:::acme-files', 'arn:aws:s3:::acme-files/*'])
    expect(JSON.parse(policyFor('acme-files', ['admin'])).Statement[0].Action).toEqual(['s3:*'])
  })
})

describe('without a bucket', () => {
  test('workspace without a bucket: any object operation: bucket_required, nothing is written', async () => {
    const body = { tenant_id: testWorkspace.tenantId, name: 'W', slug: unique('w'), bucket: null }
    const headers = { prefer: 'wait=30' }
    const made = await call('POST', '/v1/workspaces', { as: testWorkspace.operator, headers, body })
    expect([made.status, made.body.bucket, made.body.state]).toEqual([201, null, 'active'])
    const key = { workspace_id: made.body.id, kind: 'service', name: 'x' }
    const as = {
      apikey: (await call('POST', '/v1/api-keys', { as: testWorkspace.operator, body: key })).body.key,
    }
    const { bucket } = await identityOf(testWorkspace)
    for (const path of [`/v1/objects/${bucket}/k`, `/v1/objects/${unique('b')}/k`]) {
      for (const method of ['PUT', 'GET', 'DELETE']) {
        const reply = await call(method, path, { as, ...(method === 'PUT' && { body: {} }) })
        expect([method, reply.status, reply.body.code]).toEqual([method, 409, 'bucket_required'])
      }
    }
    expect((await call('GET', `/v1/objects/${bucket}`, { as })).body.code).toBe('bucket_required')
    const rows = await asSuperuser('select 1 from tenon.storage_identities where workspace_id = $1', [
      made.body.id,
    ])
    expect(rows).toEqual([])
    const user = new GetUserCommand({ UserName: `tenon-${made.body.id}` })
    await expect(root().send(user)).rejects.toMatchObject({ name: expect.stringContaining('NoSuchEntity') })
  })

  test('workspace older than storage identities: any object operation: bucket_required', async () => {
    const old = await createTestWorkspace()
    const { bucket } = await identityOf(old)
    await asSuperuser('delete from tenon.storage_identities where workspace_id = $1', [old.workspaceId])
    const reply = await call('PUT', `/v1/objects/${bucket}/k`, { as: old.service, body: {} })
    expect([reply.status, reply.body.code]).toEqual([409, 'bucket_required'])
  })
})

describe('creating the identity again', () => {
  test('storage identity: created again after a crash: one key remains', async () => {
    const made = await createTestWorkspace()
    const { access_key_id: known } = await identityOf(made)
    expect(await keysOf(made)).toEqual([known])
    const stray = await root().send(new CreateAccessKeyCommand(userOf(made)))
    expect(await keysOf(made)).toHaveLength(2)
    await provisionAgain(made)
    expect(await keysOf(made)).toEqual([known])
    expect(stray.AccessKey?.AccessKeyId).not.toBe(known)
  })

  test('storage identity: key lost by the store: replaced', async () => {
    const made = await createTestWorkspace()
    const { access_key_id: lost, bucket } = await identityOf(made)
    await root().send(new DeleteAccessKeyCommand({ ...userOf(made), AccessKeyId: lost }))
    const path = `/v1/objects/${bucket}/k`
    const refused = await call('PUT', path, { as: made.service, body: {} })
    expect([refused.status, refused.body.code]).toEqual([503, 'dependency_unavailable'])
    await provisionAgain(made)
    const { access_key_id: fresh } = await identityOf(made)
    expect(await keysOf(made)).toEqual([fresh])
    expect((await call('PUT', path, { as: made.service, body: {} })).status).toBe(201)
  })
})

/** The step runs again, as it does if a worker dies after it. */
async function provisionAgain({ tenantId, workspaceId }: TestWorkspace): Promise<void> {
  const { temporal, close } = openTemporal()
  const operationId = typeId('op', v7())
  await asSuperuser(
    `insert into tenon.operations (id, tenant_id, type, target, workflow_id, state)
     values ($1, $2, 'workspace.create', $3, 'x', 'queued')`,
    [operationId, tenantId, workspaceId],
  )
  const target = { tenantId, workspaceId }
  const steps = ['bucket', 'storage_identity', 'activate_workspace']
  const start = {
    definition: 'provision',
    queue: QUEUES.provisioning,
    subject: 'workspace-provision',
  } as const
  const input = { operation_id: operationId, kind: 'workspace', target, steps }
  const ref = { tenantId: tenantId as TenantId, workspaceId: '-' } as const
  await temporal.workflowsOf(ref).start({ ...start, uuid: v7(), input, summary: 'again' })
  await close()
  await eventually(async () => {
    const [row] = await asSuperuser<{ state: string }>('select state from tenon.operations where id = $1', [
      operationId,
    ])
    return row?.state === 'succeeded' ? true : undefined
  })
}
