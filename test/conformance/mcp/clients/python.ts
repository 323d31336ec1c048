/** The official SDK for Python, in an environment of its own (requirements.txt). */

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Check, IDENTITIES, once, type World } from './world.ts'

const run = promisify(execFile)
const MODES = ['legacy', 'auto', '2026-07-28'] as const

/** @param folder for the environment */
export function pythonChecks(world: World, folder: string): Check[] {
  const home = join(folder, 'python')
  const install = once(async () => {
    await run('python3', ['-m', 'venv', home])
    const requirements = join(import.meta.dirname, 'requirements.txt')
    await run(join(home, 'bin', 'pip'), ['install', '--quiet', '-r', requirements])
  })
  const { desk, platform, workspaceId, orderUri, browserUrl, documentId } = world
  return MODES.flatMap((mode) =>
    IDENTITIES.map((identity) => ({
      name: `Python SDK, ${mode}, ${identity} client`,
      run: async () => {
        await install()
        const settings = {
          ...{ desk, platform, workspace: workspaceId, order: orderUri, browser: browserUrl, mode },
          document: identity === 'document' ? documentId : null,
        }
        const program = join(import.meta.dirname, 'check.py')
        await run(join(home, 'bin', 'python'), [program, JSON.stringify(settings)], { timeout: 120_000 })
      },
    })),
  )
}
