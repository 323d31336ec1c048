/**
 * `npm run test:clients -- ceph` runs the part of Ceph's s3-tests that is about objects, uploads and lists, prints its score, and
 * compares its failures with those that are known. The suite is fetched into a folder for caches, and is no part of this repository.
 */

import { execFile } from 'node:child_process'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { KNOWN_FAILURES } from './ceph-failures.ts'
import type { Target } from './target.ts'

const execute = promisify(execFile)

const SOURCE = 'https://github.com/ceph/s3-tests.git'
/** The version that the list of failures is about. */
const COMMIT = '8f0ae7b404a3a2fcf7038bf1e6bf29544fe9b6a3'
const CACHE = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'tenon')
const SUITE = join(CACHE, 's3-tests')
const PYTHON = join(CACHE, 's3-tests-python')
const PACKAGES = [
  'boto3',
  'isodate',
  'lxml',
  'munch',
  'python-dateutil',
  'pytest',
  'pytz',
  'PyYAML',
  'requests',
]

/** Groups of tests of what the S3 API does not have, by their marks and by their names. */
const ABSENT_MARKS = [
  ...[
    'abac_test',
    'appendobject',
    'auth_aws2',
    'bucket_policy',
    'bucket_encryption',
    'bucket_logging',
    'bucket_logging_cleanup',
  ],
  ...[
    'cloud_restore',
    'cloud_transition',
    'delete_marker',
    'encryption',
    'fails_on_aws',
    'group_policy',
    'iam_account',
    'iam_tenant',
  ],
  ...[
    'iam_user',
    'lifecycle',
    'lifecycle_expiration',
    'lifecycle_transition',
    'object_lock',
    'object_ownership',
    'role_policy',
  ],
  ...[
    's3select',
    's3website',
    's3website_redirect_location',
    's3website_routing_rules',
    'session_policy',
    'sns',
    'sse_s3',
  ],
  ...['storage_class', 'test_of_sts', 'user_policy', 'versioning', 'webidentity_test'],
]
const ABSENT_NAMES = [
  'acl',
  'anon',
  'bucket_create',
  'cors',
  'logging',
  'ownership',
  'policy',
  'post_object',
  'public',
  'object_lock',
  'version',
  'website',
]

/** A fetched suite, and the Python that runs it; or the reason why there is none. */
export async function fetchSuite(): Promise<{ readonly python: string } | { readonly reason: string }> {
  const python = join(PYTHON, 'bin/python')
  try {
    await mkdir(CACHE, { recursive: true })
    if (!(await exists(SUITE))) await execute('git', ['clone', '--quiet', SOURCE, SUITE])
    await execute('git', ['-C', SUITE, 'checkout', '--quiet', COMMIT])
    if (!(await exists(python))) {
      await execute('python3', ['-m', 'venv', PYTHON])
      await execute(python, ['-m', 'pip', 'install', '--quiet', ...PACKAGES])
    }
    return { python }
  } catch (error) {
    return { reason: (error as Error).message.trim() }
  }
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

interface Score {
  readonly passed: readonly string[]
  /** The first line of what failed, by test. */
  readonly failed: ReadonlyMap<string, string>
  readonly skipped: readonly string[]
}

/** Runs the tests. @throws Error with tests that fail and are not known, or that pass and are known as failing */
export async function testCeph(python: string, target: Target): Promise<void> {
  const score = await runTests(python, target)
  const { passed, failed, skipped } = score
  process.stdout.write(
    `s3-tests: ${passed.length} of ${passed.length + failed.size} passed; ${skipped.length} skipped, which need several buckets or a setting\n`,
  )
  const known = new Map(
    Object.entries(KNOWN_FAILURES).flatMap(([reason, names]) => names.map((name) => [name, reason])),
  )
  for (const [name, message] of failed)
    process.stdout.write(`  ${name}: ${known.get(name) ?? `NOT KNOWN: ${message}`}\n`)
  const unknown = [...failed.keys()].filter((name) => !known.has(name))
  const mended = passed.filter((name) => known.has(name))
  if (unknown.length > 0) throw new Error(`failed, and not in ceph-failures.ts: ${unknown.join(', ')}`)
  if (mended.length > 0) throw new Error(`passed, and still in ceph-failures.ts: ${mended.join(', ')}`)
}

async function runTests(python: string, { dir, endpoint, run }: Target): Promise<Score> {
  const [report, config] = [join(dir, 's3-tests.xml'), join(dir, 's3-tests.conf')]
  await writeFile(config, configurationOf(endpoint))
  const marks = ABSENT_MARKS.map((mark) => `not ${mark}`).join(' and ')
  const names = ABSENT_NAMES.map((name) => `not ${name}`).join(' and ')
  const args = [
    '-m',
    'pytest',
    '-q',
    '-p',
    'ceph_plugin',
    '-p',
    'no:cacheprovider',
    '--rootdir',
    SUITE,
    '-c',
    join(SUITE, 'pytest.ini'),
  ]
  const selected = [
    '-m',
    marks,
    '-k',
    names,
    '--junit-xml',
    report,
    join(SUITE, 's3tests/functional/test_s3.py'),
  ]
  const path = [resolve('test/conformance/s3-clients'), SUITE].join(':')
  // It ends with 1 if tests fail; the report says which.
  await run(python, [...args, ...selected], {
    PYTHONPATH: path,
    PYTHONDONTWRITEBYTECODE: '1',
    S3TEST_CONF: config,
  }).catch(async (error: unknown) => {
    if (!(await exists(report))) throw error
  })
  return scoreOf(await readFile(report, 'utf8'))
}

/** Of a report of pytest in the form of JUnit. */
function scoreOf(xml: string): Score {
  const [passed, skipped, failed] = [[] as string[], [] as string[], new Map<string, string>()]
  for (const [, name = '', rest = ''] of xml.matchAll(CASE)) {
    const [, message] = /<(?:failure|error) message="([^"]*)"/.exec(rest) ?? []
    if (message !== undefined) failed.set(name, message.split('&#10;')[0]?.slice(0, 200) ?? '')
    else if (/<skipped\b/.test(rest)) skipped.push(name)
    else passed.push(name)
  }
  return { passed, failed, skipped }
}

const CASE = /<testcase [^>]*? name="([^"]+)"[^>]*?(\/>|>[\s\S]*?<\/testcase>)/g

/** The storage key is in the environment of the program; all identities of the suite are the same one. */
function configurationOf(endpoint: string): string {
  const { hostname, port } = new URL(endpoint)
  const identity = [
    'access_key = KEY',
    'secret_key = SECRET',
    'display_name = main',
    'user_id = main',
    'email = main@example.test',
  ]
  const sections = ['s3 main', 's3 alt', 's3 tenant', 'iam', 'iam root', 'iam alt root'].map((name) =>
    [`[${name}]`, ...identity, ...(name === 's3 tenant' ? ['tenant = main'] : [])].join('\n'),
  )
  const defaults = [
    '[DEFAULT]',
    `host = ${hostname}`,
    `port = ${port}`,
    'is_secure = False',
    'ssl_verify = False',
  ].join('\n')
  return [defaults, '[fixtures]\nbucket prefix = tenon-{random}-', ...sections, ''].join('\n\n')
}
