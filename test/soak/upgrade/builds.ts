/** Builds of other sources than these: that of a release, and the next one, which has more migrations. */

import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** What a build is made of. */
const SOURCES = [
  'src',
  'flows-dsl',
  'stack',
  'docs',
  'examples',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
]
const RELEASED = 'src/infra/postgres/released-schema.json'
const SCHEMA_FILES = 'src/infra/postgres/schema-files.ts'
const NO_MIGRATIONS = 'const MIGRATIONS: readonly string[] = ['

export interface OtherBuild {
  readonly api: string
  readonly worker: string
  /** Its settings besides those of the platform. */
  readonly env: Readonly<Record<string, string>>
  /** Runs a command of its CLI. @returns what it prints */
  tenon(args: readonly string[], env: Readonly<Record<string, string>>): Promise<string>
  remove(): Promise<void>
}

/** A migration, by the name of its file. */
type Migrations = Readonly<Record<string, string>>

/** @returns the commit that made {@link RELEASED}, which is release 0.1.0; undefined without its history */
export async function releaseCommit(): Promise<string | undefined> {
  const found = await run('git', ['log', '--diff-filter=A', '--format=%H', '--', RELEASED]).catch(
    () => undefined,
  )
  return found?.stdout.trim().split('\n').at(-1) || undefined
}

/** The build of a commit, whose packages are installed if they are not those of this one. */
export const buildOf = (commit: string): Promise<OtherBuild> =>
  make(async (dir) => {
    const archive = join(dir, 'sources.tar')
    await run('git', ['archive', '--output', archive, commit, ...SOURCES])
    await run('tar', ['-xf', archive, '-C', dir])
    const lock = 'package-lock.json'
    if ((await readFile(join(dir, lock), 'utf8')) === (await readFile(lock, 'utf8')))
      await symlink(resolve('node_modules'), join(dir, 'node_modules'))
    else await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: dir, maxBuffer: 1 << 26 })
  })

/** The build of these sources with more migrations behind their own. */
export const buildWith = (migrations: Migrations): Promise<OtherBuild> =>
  make(async (dir) => {
    for (const source of SOURCES) await cp(source, join(dir, source), { recursive: true })
    await symlink(resolve('node_modules'), join(dir, 'node_modules'))
    await mkdir(join(dir, 'src/infra/postgres/migrations'), { recursive: true })
    for (const [name, text] of Object.entries(migrations)) await writeFile(join(dir, 'src', name), text)
    const file = join(dir, SCHEMA_FILES)
    const text = await readFile(file, 'utf8')
    const own = text.split(NO_MIGRATIONS)[1]?.split(']')[0] ?? ''
    const names = Object.keys(migrations).map((name) => `'${name}',`)
    await writeFile(file, text.replace(`${NO_MIGRATIONS}${own}`, `${NO_MIGRATIONS}${own}${names.join('')}`))
  })

async function make(fill: (dir: string) => Promise<void>): Promise<OtherBuild> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-build-'))
  const remove = () => rm(dir, { recursive: true, force: true })
  const main = join(dir, 'src/cli/main.ts')
  const tenon: OtherBuild['tenon'] = async (args, env) => {
    const { stdout } = await run(process.execPath, [main, ...args], {
      ...{ cwd: dir, env: { ...process.env, ...env }, maxBuffer: 1 << 26 },
    })
    return stdout
  }
  try {
    await fill(dir)
    const dist = join(dir, 'dist')
    await tenon(['build', dist], {})
    const env = { TENON_WORKFLOW_BUNDLE: join(dist, 'workflows.js') }
    return { api: join(dist, 'api.mjs'), worker: join(dist, 'worker.mjs'), env, tenon, remove }
  } catch (error) {
    await remove()
    throw error
  }
}
