/** Builds of other sources than these: that of a release, and the next one, which has more migrations. */

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
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

type Env = Readonly<Record<string, string>>

/** The processes of a build. */
export interface Programs {
  readonly api: string
  readonly worker: string
  /** Its settings besides those of the platform. */
  readonly env?: Env
}

/** A folder with the sources of a build, and its packages. */
export interface Sources {
  /** Runs a command of its CLI. @returns what it prints @throws Error with what it says */
  tenon(args: readonly string[], env: Env): Promise<string>
  build(): Promise<Programs>
  remove(): Promise<void>
}

/** A migration, by the name of its file. */
type Migrations = Readonly<Record<string, string>>

/** @returns the commit that made {@link RELEASED}, which is release 0.1.0 @throws Error without the history of the repository */
async function releaseCommit(): Promise<string> {
  const found = await run('git', ['log', '--diff-filter=A', '--format=%H', '--', RELEASED]).catch(
    () => undefined,
  )
  const commit = found?.stdout.trim().split('\n').at(-1)
  if (!commit) throw new Error('The history of the repository is missing: run `git fetch --unshallow`.')
  return commit
}

/** Release 0.1.0, whose packages are installed if they are not those of this build. */
export const releaseSources = (): Promise<Sources> =>
  make(async (dir) => {
    const commit = await releaseCommit()
    const archive = join(dir, 'sources.tar')
    await run('git', ['archive', '--output', archive, commit, ...SOURCES])
    await run('tar', ['-xf', archive, '-C', dir])
    const lock = 'package-lock.json'
    const text = await readFile(join(dir, lock), 'utf8')
    const packages =
      text === (await readFile(lock, 'utf8')) ? resolve('node_modules') : await packagesOf(text, dir)
    await symlink(packages, join(dir, 'node_modules'))
  })

/** Packages of another lock file, which stay for the next drill. @returns their folder */
async function packagesOf(lock: string, dir: string): Promise<string> {
  const name = createHash('sha256').update(lock).digest('hex').slice(0, 24)
  const kept = resolve('node_modules/.cache/tenon-packages', name)
  if (!existsSync(kept)) {
    await mkdir(dirname(kept), { recursive: true })
    // An installation that is cut off must not be taken for whole.
    const fresh = await mkdtemp(`${kept}-`)
    for (const file of ['package.json', 'package-lock.json']) await cp(join(dir, file), join(fresh, file))
    await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: fresh, maxBuffer: 1 << 26 })
    await rename(fresh, kept)
  }
  return join(kept, 'node_modules')
}

/** These sources with more migrations behind their own. */
export const sourcesWith = (migrations: Migrations): Promise<Sources> =>
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

/** Runs a command of the CLI of the sources in the folder, as {@link Sources.tenon}. */
export const tenonOf =
  (dir: string): Sources['tenon'] =>
  async (args, env) => {
    const { stdout } = await run(process.execPath, [join(dir, 'src/cli/main.ts'), ...args], {
      ...{ cwd: dir, env: { ...process.env, ...env }, maxBuffer: 1 << 26 },
    })
    return stdout
  }

async function make(fill: (dir: string) => Promise<void>): Promise<Sources> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-build-'))
  const remove = () => rm(dir, { recursive: true, force: true })
  const tenon = tenonOf(dir)
  const dist = join(dir, 'dist')
  const build = async () => {
    await tenon(['build', dist], {})
    const env = { TENON_WORKFLOW_BUNDLE: join(dist, 'workflows.js') }
    return { api: join(dist, 'api.mjs'), worker: join(dist, 'worker.mjs'), env }
  }
  try {
    await fill(dir)
    return { tenon, build, remove }
  } catch (error) {
    await remove()
    throw error
  }
}
