/** Does what the creation of a workspace cannot do without: a workflow with as many activities, and the requests to the object store. */

import {
  CreateBucketCommand,
  DeleteObjectCommand,
  PutBucketTaggingCommand,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { parseConfig } from '../src/infra/config.ts'
import { rootOf, storeOf } from '../src/infra/s3/options.ts'
import type { Running } from '../test/support/stack/start.ts'
import { bareWorkflows } from './bare-worker.ts'

export interface BareCreation {
  /** Of a workspace; with `tenant`: of its tenant before. */
  run(tenant?: boolean): Promise<void>
  close(): Promise<void>
}

export async function openBareCreation(running: Running): Promise<BareCreation> {
  const config = parseConfig(running.env)
  const s3 = new S3Client({ ...storeOf(config), credentials: rootOf(config) })
  const bare = await bareWorkflows(running)
  let n = 0
  return {
    run: async (tenant = false) => {
      const Bucket = `bare-${process.pid}-${n++}`
      if (tenant) await bare.run('bareCall')
      await bare.run('bareSteps')
      await s3.send(new CreateBucketCommand({ Bucket }))
      const TagSet = [{ Key: 'tenon-workspace', Value: 'bench' }]
      await s3.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }))
      await s3.send(new PutObjectCommand({ Bucket, Key: 'first', Body: 'x' }))
      await s3.send(new DeleteObjectCommand({ Bucket, Key: 'first' }))
    },
    close: async () => {
      await bare.stop()
      s3.destroy()
    },
  }
}
