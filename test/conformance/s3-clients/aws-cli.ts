/** The AWS CLI as people use it: copies, lists, syncs, presigned URLs and removal, with files that need several parts. */

import { strict as assert } from 'node:assert'
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Programs } from './programs.ts'
import type { Target } from './target.ts'

export async function testAwsCli({ aws }: Programs, { run, bucket, dir }: Target): Promise<void> {
  const config = join(dir, 'aws-config')
  // Without it, version 1 of the CLI presigns URLs with the outdated version 2 of signatures.
  await writeFile(config, '[default]\ns3 =\n  signature_version = s3v4\n  addressing_style = path\n')
  const s3 = (...args: string[]) => run(aws, ['s3', ...args], { AWS_CONFIG_FILE: config })
  const [from, to] = [join(dir, 'aws-from'), join(dir, 'aws-to')]
  await mkdir(join(from, 'fo lder'), { recursive: true })
  const large = randomBytes(20 * 1_048_576)
  await writeFile(join(from, 'large.bin'), large)
  await writeFile(join(from, 'fo lder', 'ü+&.txt'), 'hello')
  await s3('sync', from, `s3://${bucket}/cli/`)
  assert.match(await s3('ls', '--recursive', `s3://${bucket}/cli/`), /5 cli\/fo lder\/ü\+&\.txt/)
  assert.equal(await s3('sync', from, `s3://${bucket}/cli/`), '')
  await s3('cp', `s3://${bucket}/cli/large.bin`, `s3://${bucket}/cli2/large.bin`)
  await s3('mv', `s3://${bucket}/cli/fo lder/ü+&.txt`, `s3://${bucket}/cli2/moved`)
  await s3('sync', `s3://${bucket}/cli2/`, to)
  assert.ok(large.equals(await readFile(join(to, 'large.bin'))))
  assert.equal(await readFile(join(to, 'moved'), 'utf8'), 'hello')
  const url = (await s3('presign', `s3://${bucket}/cli2/moved`)).trim()
  assert.equal(await (await fetch(url)).text(), 'hello')
  await s3('rm', '--recursive', `s3://${bucket}/cli`)
  await assert.rejects(s3('ls', `s3://${bucket}/cli/`))
  await assert.rejects(s3('ls', 's3://not-this-one/'), /AccessDenied/)
}
