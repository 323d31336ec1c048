/** Builds the programs of Temporal's images from their Go modules, once per user: the dev server of the stack knows SQLite alone. */

import { existsSync } from 'node:fs'
import { cp, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheDir, execute } from '../../../stack/binaries.mjs'

const SERVER = 'go.temporal.io/server'
const UI = 'github.com/temporalio/ui-server/v2'
const BUILD_MS = 3_000_000

/** @returns a folder with the programs and the files that the images have beside them */
export async function temporalPrograms(server: string, ui: string): Promise<string> {
  const folder = join(cacheDir(), `temporal-images-${server}-${ui}`)
  if (existsSync(folder)) return folder
  const draft = `${folder}.draft`
  await rm(draft, { recursive: true, force: true })
  await mkdir(draft, { recursive: true })
  await build(`${SERVER}/cmd/server@v${server}`, draft, 'temporal-server')
  await build(`${SERVER}/cmd/tools/sql@v${server}`, draft, 'temporal-sql-tool')
  await build(`${UI}/cmd/server@v${ui}`, draft, 'temporal-ui/ui-server')
  const [ofServer, ofUi] = [await moduleFolder(SERVER, server), await moduleFolder(UI, ui)]
  const copied = [
    [ofServer, 'schema/postgresql', 'temporal/schema/postgresql'],
    [ofServer, 'docker/scripts/sh/entrypoint.sh', 'temporal/entrypoint.sh'],
    [ofUi, 'config/docker.yaml', 'temporal-ui/config/docker.yaml'],
    [ofUi, 'docker/start-ui-server.sh', 'temporal-ui/start-ui-server.sh'],
  ] as const
  for (const [from, path, to] of copied) await cp(join(from, path), join(draft, to), { recursive: true })
  // Files of modules are read-only, and not executable.
  await execute('chmod', ['-R', 'a+rX,u+w', draft])
  await execute('chmod', [
    'a+x',
    join(draft, 'temporal/entrypoint.sh'),
    join(draft, 'temporal-ui/start-ui-server.sh'),
  ])
  await rename(draft, folder)
  return folder
}

async function build(program: string, folder: string, name: string): Promise<void> {
  const bin = join(folder, 'bin')
  const env = { ...process.env, GOBIN: bin, CGO_ENABLED: '0' }
  await execute('go', ['install', '-trimpath', '-ldflags', '-s -w', program], { env, timeoutMs: BUILD_MS })
  const [built = ''] = (await execute('ls', [bin])).split('\n')
  await mkdir(join(folder, name, '..'), { recursive: true })
  await rename(join(bin, built), join(folder, name))
}

async function moduleFolder(module: string, version: string): Promise<string> {
  const output = await execute('go', ['mod', 'download', '-json', `${module}@v${version}`])
  return (JSON.parse(output) as { Dir: string }).Dir
}
