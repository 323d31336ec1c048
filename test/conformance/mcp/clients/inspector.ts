/** The command line of the Inspector, which checks whether the schemas of tools suit the providers of models. */

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Check, once, type World } from './world.ts'

const PACKAGE = '@modelcontextprotocol/inspector'
const VERSION = '2.12.0'
const run = promisify(execFile)

/** @param folder for its packages */
export function inspectorChecks({ desk, platform, tokens }: World, folder: string): Check[] {
  const prefix = join(folder, 'inspector')
  const install = once(async () => {
    const options = ['--prefix', prefix, '--no-audit', '--no-fund', '--ignore-scripts']
    await run('npm', ['install', ...options, `${PACKAGE}@${VERSION}`], { cwd: folder })
  })
  const program = join(prefix, 'node_modules', PACKAGE, 'clients/launcher/build/index.js')
  const inspect = async (url: string, token: string, era: string, ...more: string[]) => {
    const header = `Authorization: Bearer ${token}`
    const args = ['--cli', url, '--transport', 'http', '--protocol-era', era, '--header', header, ...more]
    return run(process.execPath, [program, ...args], {
      maxBuffer: 1 << 26,
      timeout: 60_000,
      env: { ...process.env, MCP_CATALOG_PATH: join(folder, 'catalog.json') },
    })
  }
  const servers = {
    'hosted server': [desk, tokens.desk],
    'platform server': [platform, tokens.platform],
  } as const
  return Object.entries(servers).flatMap(([name, [url, token]]) =>
    ['legacy', 'modern'].map((era) => ({
      name: `Inspector, ${era}, ${name}: no warning`,
      run: async () => {
        await install()
        const { stdout, stderr } = await inspect(url, token, era, '--method', 'tools/list', '--strict')
        if (JSON.parse(stdout).tools.length === 0) throw new Error('it has no tools')
        if (/warning|error/i.test(stderr)) throw new Error(stderr)
      },
    })),
  )
}
