/** The workflow bundle on disk: built once per content of its sources, for every process that wants it. */

import { createHash } from 'node:crypto'
import { access, copyFile, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const BUNDLES = join(ROOT, 'node_modules/.cache/tenon')
/** What the bundle is made of; a change in any file makes a new one. */
const BUNDLE_SOURCES = ['src/workflows', 'src/core', 'src/activities', 'flows-dsl', 'package-lock.json']

let built: Promise<string> | undefined

/** Path of the workflow bundle, built where there is none of these sources yet: about three seconds. */
export function bundlePath(): Promise<string> {
  built ??= find()
  return built
}

async function find(): Promise<string> {
  const path = join(BUNDLES, `workflows-${await digest()}.js`)
  const known = await access(path).then(
    () => true,
    () => false,
  )
  if (!known) await build(path)
  return path
}

async function build(path: string): Promise<void> {
  const { buildBundle } = await import('../../activities/bundle.ts')
  const code = await buildBundle()
  await mkdir(BUNDLES, { recursive: true })
  const draft = `${path}.${process.pid}`
  await writeFile(draft, code)
  await rename(draft, path)
}

/** Writes the bundle where an image wants it. @returns the exit code */
export async function copyBundle(file: string): Promise<number> {
  await copyFile(await bundlePath(), file)
  return 0
}

async function digest(): Promise<string> {
  const hash = createHash('sha256')
  for (const source of BUNDLE_SOURCES) {
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
