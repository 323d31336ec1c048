/** Programs of Debian packages for tests: downloaded with the libraries that they need, and unpacked. Nothing is installed. */

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cacheDir } from '../../../stack/binaries.mjs'
import { withLock } from '../../../stack/lock.mjs'

const execute = promisify(execFile)

export interface DebianProgram {
  readonly path: string
  /** With the folder of its libraries. */
  readonly env: NodeJS.ProcessEnv
}

/**
 * The program of the machine, or that of a package.
 * @param name of the package @param path below the root of the package
 * @throws Error with the reason why there is none
 */
export async function debianProgram(name: string, path: string): Promise<DebianProgram> {
  const installed = join('/', path)
  if (existsSync(installed)) return { path: installed, env: process.env }
  const folder = join(cacheDir(), `debian-${name}`)
  await mkdir(cacheDir(), { recursive: true })
  await withLock(`${folder}.lock`, async () => {
    if (!existsSync(folder)) await unpack(name, folder)
  })
  const libraries = (await readdir(join(folder, 'usr/lib')).catch(() => []))
    .filter((one) => one.endsWith('-gnu'))
    .map((one) => join(folder, 'usr/lib', one))
  return { path: join(folder, path), env: { ...process.env, LD_LIBRARY_PATH: libraries.join(':') } }
}

async function unpack(name: string, folder: string): Promise<void> {
  const draft = `${folder}.draft`
  await rm(draft, { recursive: true, force: true })
  await mkdir(draft)
  try {
    await execute('apt-get', ['download', name, ...(await missingLibraries(name))], { cwd: draft })
    const packages = (await readdir(draft)).filter((file) => file.endsWith('.deb'))
    for (const file of packages) await execute('dpkg-deb', ['-x', file, '.'], { cwd: draft })
    await rename(draft, folder)
  } catch (error) {
    throw new Error(
      `The package ${name} of Debian cannot be downloaded: ${(error as Error).message.trim()}. Install it with \`apt-get install ${name}\`.`,
    )
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

/** Libraries that the package and its libraries need, and that the machine lacks. */
async function missingLibraries(name: string): Promise<string[]> {
  const args = ['install', '--simulate', '--no-install-recommends', name]
  const { stdout } = await execute('apt-get', args)
  return [...stdout.matchAll(/^Inst (lib\S+)/gm)].flatMap(([, library = '']) =>
    library === name ? [] : [library],
  )
}
