/**
 * `npm run test:clients` runs boto3, the AWS CLI and rclone against the S3 API of a platform of its own. Programs that are missing are
 * installed below `.tenon`, from PyPI and from Debian's package.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPlatform } from '../../support/stack/start.ts'
import { testAwsCli } from './aws-cli.ts'
import { testBoto3 } from './boto3.ts'
import { findPrograms } from './programs.ts'
import { testRclone } from './rclone.ts'
import { openTarget } from './target.ts'

const programs = await findPrograms().catch((error: Error) => {
  process.stderr.write(`Nothing was tested. ${error.message}\n`)
  process.exit(1)
})
const dir = await mkdtemp(join(tmpdir(), 'tenon-s3-clients-'))
const started = await startPlatform(dir)
const failures: string[] = []
try {
  const target = await openTarget(started.running, dir)
  for (const [name, suite] of Object.entries({ boto3: testBoto3, aws: testAwsCli, rclone: testRclone })) {
    const failure = await suite(programs, target).then(
      () => undefined,
      (error: Error) => error.message,
    )
    if (failure !== undefined) failures.push(`${name}: ${failure}`)
    process.stdout.write(`${failure === undefined ? '✓' : '✗'} ${name}\n`)
  }
} finally {
  await started.stop()
  await rm(dir, { recursive: true, force: true })
}
for (const failure of failures) process.stderr.write(`${failure}\n`)
process.exit(failures.length === 0 ? 0 : 1)
