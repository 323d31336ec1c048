/** What the platform's processes run: the API and the worker, each packed into one file, and the workflow bundle. */

import { createHash } from 'node:crypto'
import { access, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const CACHE = join(ROOT, 'node_modules/.cache/tenon')
/** A change in any of these makes a new build. */
const SOURCES = ['src', 'flows-dsl', 'package-lock.json']
/** Stay packages: native code, or files that they look for beside themselves. */
const EXTERNAL = ['@temporalio/*', '@fastify/swagger-ui', '@swc/core', 'esbuild']

export interface Build {
  readonly api: string
  readonly worker: string
  readonly workflows: string
}

let built: Promise<Build> | undefined

/** The build of these sources; made where there is none yet, in about five seconds, for all who come after. */
export function currentBuild(): Promise<Build> {
  built ??= find()
  return built
}

async function find(): Promise<Build> {
  const folder = join(CACHE, await digest())
  const known = await access(folder).then(
    () => true,
    () => false,
  )
  if (!known) await make(folder)
  return {
    api: join(folder, 'api.mjs'),
    worker: join(folder, 'worker.mjs'),
    workflows: join(folder, 'workflows.js'),
  }
}

/** Made aside and renamed when it is whole, so that two at once do not meet. */
async function make(folder: string): Promise<void> {
  await mkdir(CACHE, { recursive: true })
  const draft = await mkdtemp(join(CACHE, 'draft-'))
  try {
    await Promise.all([packProcesses(draft), packWorkflows(draft)])
    await rename(draft, folder).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

/** One file starts in a fraction of the time that a thousand modules take. */
async function packProcesses(folder: string): Promise<void> {
  const { build } = await import('esbuild')
  await build({
    absWorkingDir: ROOT,
    entryPoints: { api: 'src/api/main.ts', worker: 'src/activities/main.ts' },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    external: EXTERNAL,
    sourcemap: 'linked',
    logLevel: 'error',
    // CommonJS packages inside an ES module still ask for `require` and their folder.
    banner: {
      js: [
        "import { createRequire as __createRequire } from 'node:module'",
        'const require = __createRequire(import.meta.url)',
        'const __filename = import.meta.filename ?? ""',
        'const __dirname = import.meta.dirname ?? ""',
      ].join(';'),
    },
  })
}

async function packWorkflows(folder: string): Promise<void> {
  const { buildBundle } = await import('../../activities/bundle.ts')
  await writeFile(join(folder, 'workflows.js'), await buildBundle())
}

/** Copies the build where an image wants it. @returns the exit code */
export async function exportBuild(folder: string): Promise<number> {
  await mkdir(folder, { recursive: true })
  const { api, worker, workflows } = await currentBuild()
  await copyFile(api, join(folder, 'api.mjs'))
  await copyFile(worker, join(folder, 'worker.mjs'))
  await copyFile(workflows, join(folder, 'workflows.js'))
  return 0
}

async function digest(): Promise<string> {
  const hash = createHash('sha256')
  for (const source of SOURCES) {
    for (const file of await filesOf(join(ROOT, source))) hash.update(file).update(await readFile(file))
  }
  return hash.digest('hex').slice(0, 24)
}

async function filesOf(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true, recursive: true }).catch(() => undefined)
  if (entries === undefined) return [path]
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  return files.map((entry) => join(entry.parentPath, entry.name)).sort()
}
