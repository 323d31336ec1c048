/**
 * `npm run test:clients` runs boto3, the AWS CLI and rclone against the S3 API of a platform of its own. Programs that are missing are
 * installed below `.tenon`, from PyPI and from Debian's package. `npm run test:clients -- ceph` runs Ceph's s3-tests in their place.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPlatform } from '../../support/stack/start.ts'
import { testAwsCli } from './aws-cli.ts'
import { testBoto3 } from './boto3.ts'
import { fetchSuite, testCeph } from './ceph.ts'
import { findPrograms } from './programs.ts'
import { testRclone } from './rclone.ts'
import { openTarget, type Target } from './target.ts'

const suites = process.argv[2] === 'ceph' ? await cephSuite() : await clientSuites()
const dir = await mkdtemp(join(tmpdir(), 'tenon-s3-clients-'))
const started = await startPlatform(dir)
const failures: string[] = []
try {
  const target = await openTarget(started.running, dir)
  for (const [name, suite] of Object.entries(suites)) {
    const failure = await suite(target).then(
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

type Suites = Readonly<Record<string, (target: Target) => Promise<void>>>

async function clientSuites(): Promise<Suites> {
  const programs = await findPrograms().catch((error: Error) =>
    end(`Nothing was tested. ${error.message}`, 1),
  )
  return {
    boto3: (target) => testBoto3(programs, target),
    aws: (target) => testAwsCli(programs, target),
    rclone: (target) => testRclone(programs, target),
  }
}

/** Without the suite, nothing is tested, and nothing has failed. */
async function cephSuite(): Promise<Suites> {
  const fetched = await fetchSuite()
  if ('reason' in fetched) return end(`Skipped: the suite cannot be fetched. ${fetched.reason}`, 0)
  return { ceph: (target) => testCeph(fetched.python, target) }
}

function end(message: string, code: number): never {
  process.stderr.write(`${message}\n`)
  process.exit(code)
}
