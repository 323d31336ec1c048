/**
 * Runs MCP servers of the operator on this machine, without isolation: for development and tests. The command is that of the
 * setting TENON_DEV_STDIO_SERVERS alone; a tenant only names it (`dev:<name>`).
 */

import { Problem } from '../../../core/problem.ts'
import type { DevServers } from '../../../infra/dev-stdio-servers.ts'
import { serverEnded } from './oci-runtime.ts'
import type { ImageRuntime, RunningServer, ServerListener, ServerStart } from './runtime.ts'
import { StdioProcess } from './stdio-process.ts'

export class StdioRuntime implements ImageRuntime {
  readonly #servers: DevServers

  constructor(servers: DevServers) {
    this.#servers = servers
  }

  async check(image: string): Promise<void> {
    this.#commandOf(image)
  }

  start({ image }: ServerStart, listener: ServerListener): Promise<RunningServer> {
    const [program = '', ...args] = this.#commandOf(image)
    return StdioProcess.start({ program, args }, listener, ({ code, errors }) => serverEnded(code, errors))
  }

  #commandOf(image: string): readonly string[] {
    const name = image.slice('dev:'.length)
    const command = Object.hasOwn(this.#servers, name) ? this.#servers[name] : undefined
    if (command !== undefined) return command
    throw new Problem('containers_unavailable', {
      detail: `The platform has no server ${image} for development.`,
      adminHint: 'An operator names its command in TENON_DEV_STDIO_SERVERS.',
    })
  }
}
