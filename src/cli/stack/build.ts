/** Bundles the API, the worker and the CLI into one file each, and builds the workflow bundle. */

import { existsSync } from 'node:fs'
import { copyFile, cp, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { BuildOptions, Plugin } from 'esbuild'
import project from '../../../package.json' with { type: 'json' }
import { BUILDS, buildFolder, PROJECT_DIR } from '../../../stack/project.mjs'
import { schemaDigest, schemaOfBuild } from '../../infra/postgres/schema-files.ts'
import { currentSite } from './site.ts'

/** Not bundled: native code, packages that read files of their own folder, and one that few installations load. */
const EXTERNAL = ['@aws-sdk/client-kms', '@temporalio/*', '@swc/core', 'esbuild', 'sharp']

export interface Build {
  readonly api: string
  readonly worker: string
  readonly threads: string
  readonly workflows: string
}

let built: Promise<Build> | undefined

/** Returns the build of the current sources; creates it if necessary, in about 5 s. */
export function currentBuild(): Promise<Build> {
  built ??= find()
  return built
}

async function find(): Promise<Build> {
  const folder = buildFolder()
  if (!existsSync(folder)) await make(folder)
  return {
    api: join(folder, 'api.mjs'),
    worker: join(folder, 'worker.mjs'),
    threads: join(folder, 'threads.mjs'),
    workflows: join(folder, 'workflows.js'),
  }
}

/** Builds into a draft folder and renames it, so that concurrent builds do not conflict. */
async function make(folder: string): Promise<void> {
  await mkdir(BUILDS, { recursive: true })
  const draft = await mkdtemp(join(BUILDS, 'draft-'))
  try {
    await Promise.all([packProcesses(draft), packCommand(draft), packWorkflows(draft)])
    await rename(draft, folder).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

/** One file starts in a fraction of the time that a thousand modules take. */
const PACKED: BuildOptions = {
  absWorkingDir: PROJECT_DIR,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  external: EXTERNAL,
  sourcemap: 'linked',
  // Node parses the whole map when it starts; the sources are in the checkout.
  sourcesContent: false,
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
}

async function packProcesses(folder: string): Promise<void> {
  const { build } = await import('esbuild')
  const define = {
    // For /version (app/probes.ts).
    TENON_BUILD: JSON.stringify({ build: basename(buildFolder()), schema: await schemaDigest() }),
    // They compare the database with the schema of their build, and have no SQL files.
    SCHEMA_OF_BUILD: JSON.stringify(await schemaOfBuild()),
  }
  const entryPoints = {
    api: 'src/api/main.ts',
    worker: 'src/activities/main.ts',
    // For both (infra/thread-pool.ts).
    threads: 'src/features/threads/main.ts',
    // The worker passes their paths to Temporal's SDK (activities/main.ts).
    'payload-converter': 'src/workflows/payload-converter.ts',
    'failure-converter': 'src/workflows/failure-converter.ts',
  }
  await build({ ...PACKED, define, entryPoints, outdir: folder })
}

/** Splits the CLI, so that a verb loads only what it needs. */
async function packCommand(folder: string): Promise<void> {
  const { build } = await import('esbuild')
  const entryPoints = { main: 'src/cli/main.ts' }
  await build({ ...PACKED, entryPoints, outdir: join(folder, 'tenon'), splitting: true, sourcemap: false })
}

/** Parts of the command that start or change an installation; a package without them has no servers. */
const OF_INSTALLATIONS = /\/cli\/(stack\/(?!local-compiler)|demo\/|backup\/(create|restore))/

/** Each of them becomes a module that says where it is. */
const withoutServers: Plugin = {
  name: 'without-servers',
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^\./ }, ({ path, resolveDir, kind }) => {
      const isLeftOut = kind === 'dynamic-import' && OF_INSTALLATIONS.test(join(resolveDir, path))
      return isLeftOut ? { path, namespace: 'left-out' } : undefined
    })
    onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({
      contents: `throw new Error('This command is about an installation and its servers. Run it in a checkout of Tenon, or in its image.')`,
    }))
  },
}

/** Writes the folder of `@tenon/cli`, for `npm pack`: the command without servers, in files that need no other package. @returns the exit code */
export async function exportCommand(folder: string): Promise<number> {
  const { build } = await import('esbuild')
  const { name: _, version, description, license } = project
  const manifest = {
    ...{ name: '@tenon/cli', version, description: `The command line of Tenon. ${description}`, license },
    ...{
      type: 'module',
      bin: { tenon: 'tenon.mjs' },
      engines: { node: '>=22' },
      dependencies: { esbuild: project.dependencies.esbuild },
    },
  }
  const banner = { js: `#!/usr/bin/env node\n${PACKED.banner?.['js']}` }
  const entryPoints = { tenon: 'src/cli/main.ts' }
  await build({
    ...PACKED,
    external: ['esbuild'],
    banner,
    target: 'node22',
    entryPoints,
    outdir: folder,
    splitting: true,
    sourcemap: false,
    plugins: [withoutServers],
  })
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  return 0
}

async function packWorkflows(folder: string): Promise<void> {
  const { buildBundle } = await import('../../activities/workflow-bundle.ts')
  await writeFile(join(folder, 'workflows.js'), await buildBundle())
}

const EXPORTED = [
  ...['api.mjs', 'worker.mjs', 'threads.mjs'],
  ...['payload-converter.mjs', 'failure-converter.mjs', 'workflows.js'],
]

/** Copies the build and the site into the folder of an image. @returns the exit code */
export async function exportBuild(folder: string): Promise<number> {
  await mkdir(folder, { recursive: true })
  await cp(await currentSite(), join(folder, 'site'), { recursive: true })
  const { api } = await currentBuild()
  for (const name of EXPORTED) await copyFile(join(dirname(api), name), join(folder, name))
  return 0
}
