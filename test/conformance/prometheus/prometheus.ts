/** Provides Prometheus and promtool: those on the path, or those of Debian's package, unpacked below `.tenon`. */

import { execFile } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)
const FOLDER = resolve('.tenon/prometheus')

export interface Programs {
  readonly prometheus: string
  readonly promtool: string
}

/** @throws Error with the reason why there are none */
export async function findPrometheus(): Promise<Programs> {
  const onPath = await execute('promtool', ['--version']).catch(() => undefined)
  if (onPath !== undefined) return { prometheus: 'prometheus', promtool: 'promtool' }
  const programs = {
    prometheus: join(FOLDER, 'usr/bin/prometheus'),
    promtool: join(FOLDER, 'usr/bin/promtool'),
  }
  const isThere = () => execute(programs.promtool, ['--version']).catch(() => undefined)
  if ((await isThere()) === undefined) await unpack()
  return programs
}

/** Installs nothing. */
async function unpack(): Promise<void> {
  await mkdir(FOLDER, { recursive: true })
  const options = { cwd: FOLDER }
  await execute('apt-get', ['download', 'prometheus'], options).catch((error: Error) => {
    throw new Error(
      `Prometheus is not on the path, and the package of Debian cannot be downloaded: ${error.message.trim()}. Install it with \`apt-get install prometheus\`.`,
    )
  })
  const file = (await readdir(FOLDER)).find((name) => name.endsWith('.deb')) ?? ''
  await execute('dpkg-deb', ['-x', file, '.'], options)
}
