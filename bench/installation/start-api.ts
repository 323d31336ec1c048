/** Starts further APIs on the servers of a platform, with settings of their own, to compare them. */

import { currentBuild } from '../../src/cli/stack/build.ts'
import { Ports } from '../../stack/ports.ts'
import type { Started } from '../../test/support/stack/start.ts'
import { threadsNs } from '../cpu.ts'
import type { Side } from './paired.ts'

/** The name of the process, for the supervisor. */
export const processOf = (name: string) => `api ${name.replaceAll(/\W+/g, '-')}`

export async function startApi(
  { stack, running }: Started,
  name: string,
  settings: Readonly<Record<string, string>>,
): Promise<Side> {
  const port = await new Ports({ remembered: {}, any: true }).take(name, 0)
  const url = `http://127.0.0.1:${port}`
  await stack.supervisor.run({
    name: processOf(name),
    command: process.execPath,
    args: [(await currentBuild()).api],
    cwd: process.cwd(),
    env: { ...running.env, TENON_PUBLIC_URL: running.url, TENON_PORT: String(port), ...settings },
    logFile: `${running.logs}/${processOf(name)}.log`,
    ready: async () => {
      if (!(await fetch(`${url}/readyz`)).ok) throw new Error(`${url} is not ready`)
    },
  })
  return { name, url, usedNs: () => threadsNs(stack.supervisor.pid(processOf(name))) }
}
