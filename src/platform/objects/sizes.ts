/** What a bucket holds, key by key. */

import { ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3'
import { LEDGER_LIMITS } from '../../core/limits/ledger.ts'
import { Problem } from '../../core/problem.ts'

/**
 * @returns bytes by stored key
 * @throws Problem `value_invalid` where there are more than `LEDGER_LIMITS.objectsCountedMax`
 */
export async function sizesIn(s3: S3Client, Bucket: string): Promise<Map<string, number>> {
  const sizes = new Map<string, number>()
  let token: string | undefined
  do {
    const input = { Bucket, ...(token !== undefined && { ContinuationToken: token }) }
    const page = await s3.send(new ListObjectsV2Command(input))
    for (const { Key = '', Size = 0 } of page.Contents ?? []) sizes.set(Key, Size)
    if (sizes.size > LEDGER_LIMITS.objectsCountedMax) throw tooMany()
    token = page.IsTruncated ? page.NextContinuationToken : undefined
  } while (token !== undefined)
  return sizes
}

const tooMany = () =>
  new Problem('value_invalid', {
    detail: `More than ${LEDGER_LIMITS.objectsCountedMax} objects are there, which is more than are counted.`,
  })
