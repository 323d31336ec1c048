/**
 * Runs images by the command line of Docker or Podman. The options follow the OWASP cheat sheet "Docker Security": no network, no
 * capabilities, a file system that cannot be written to, an unprivileged user, and limits. The engine's default seccomp profile
 * stays. Nothing of the image but its entry point, its arguments and its variables has an effect here; labels have none.
 */

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Problem } from '../../../core/problem.ts'
import type { Log } from '../../../infra/log.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { ImageRuntime, RunningServer, ServerListener, ServerStart } from './runtime.ts'
import { hostEnv, type ProcessEnd, StdioProcess } from './stdio-process.ts'

/** User id and group id of the container: `nobody` in most images. */
const USER = '65534:65534'

/**
 * The arguments of `docker run`. No value of a variable is among them, since other users see arguments of processes.
 * @param name of the container
 * @param envFile path of a file of variables
 * @param untilS when the call has ended in any case, in seconds of Unix time: an operator may remove what is older
 */
export function runArguments(
  { image, commandArgs, limits, owner }: Omit<ServerStart, 'env'>,
  { name, envFile, untilS }: { readonly name: string; readonly envFile: string; readonly untilS: number },
): string[] {
  const { tmpMb, openFilesMax } = MCP_LIMITS.images
  const memory = `${limits.memory_mb}m`
  return [
    ...['run', '--rm', '--interactive', '--name', name],
    // Images are pulled by an operator, so that those that are there are the ones that may run.
    ...['--pull', 'never'],
    ...['--network', 'none', '--read-only', '--user', USER, '--cap-drop', 'ALL'],
    ...['--security-opt', 'no-new-privileges', '--ipc', 'private', '--restart', 'no', '--no-healthcheck'],
    ...['--pids-limit', String(limits.pids), '--cpus', String(limits.cpus)],
    // The same value twice: no swap.
    ...['--memory', memory, '--memory-swap', memory],
    ...['--ulimit', `nofile=${openFilesMax}:${openFilesMax}`, '--ulimit', 'core=0:0'],
    ...['--tmpfs', `/tmp:rw,noexec,nosuid,nodev,size=${tmpMb}m`],
    // A flood of output would fill the disk of the host.
    ...['--log-driver', 'none'],
    ...['--label', 'tenon.managed=mcp', '--label', `tenon.tenant=${owner.tenantId}`],
    ...['--label', `tenon.workspace=${owner.workspaceId}`, '--label', `tenon.source=${owner.source}`],
    ...['--label', `tenon.until=${untilS}`],
    ...['--env-file', envFile],
    image,
    ...commandArgs,
  ]
}

export class OciRuntime implements ImageRuntime {
  readonly #engine: string
  readonly #log: Log

  /** @param engine name or path of `docker` or `podman` */
  constructor(engine: string, log: Log) {
    this.#engine = engine
    this.#log = log
  }

  /** An image must be on the host, and declare no volumes: these could be written to without a limit. */
  async check(image: string): Promise<void> {
    const inspected = await this.#run(['image', 'inspect', '--format', '{{json .Config.Volumes}}', image])
    if (inspected === undefined) throw absent(image)
    if (!['null', '{}', ''].includes(inspected.trim()))
      throw new Problem('validation_failed', {
        detail: 'image: declares volumes (VOLUME), which are not allowed: write to /tmp.',
      })
  }

  async start(start: ServerStart, listener: ServerListener): Promise<RunningServer> {
    const name = `tenon-mcp-${randomBytes(12).toString('hex')}`
    const folder = await mkdtemp(join(tmpdir(), 'tenon-mcp-'))
    const envFile = join(folder, 'env')
    const removeFolder = () => rm(folder, { recursive: true, force: true }).catch(this.#warn)
    try {
      await writeFile(envFile, envLines(start.env), { mode: 0o600 })
      const untilS = Math.ceil(Date.now() / 1_000) + start.limits.timeout_seconds
      const args = runArguments(start, { name, envFile, untilS })
      const ended = (end: ProcessEnd) => this.#ended(end)
      const server = await StdioProcess.start({ program: this.#engine, args }, listener, ended)
      return { send: (message) => server.send(message), stop: () => this.#stop(server, name, removeFolder) }
    } catch (error) {
      await removeFolder()
      throw error
    }
  }

  /** The client of an engine may leave its container behind when it is killed. */
  async #stop(server: StdioProcess, name: string, removeFolder: () => Promise<void>): Promise<void> {
    await server.stop()
    await Promise.all([removeFolder(), this.#run(['rm', '--force', name]).catch(this.#warn)])
  }

  readonly #warn = (error: unknown): void => this.#log.warn({ err: error }, 'container not removed')

  /** By their convention, engines exit with 125 for faults of their own, which are for operators. */
  #ended({ code, errors }: ProcessEnd): Problem {
    if (code !== ENGINE_FAILED) return serverEnded(code, errors)
    this.#log.warn({ code, errors }, 'container engine failed')
    return new Problem('containers_unavailable', {
      detail: 'The container engine could not start the image; the log of the platform says why.',
    })
  }

  /** @returns the output; undefined if the command failed @throws Problem `containers_unavailable` */
  #run(args: readonly string[]): Promise<string | undefined> {
    const child = spawn(this.#engine, args, {
      ...{ cwd: '/', env: hostEnv(), shell: false },
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: MCP_LIMITS.images.engineCommandMs,
      killSignal: 'SIGKILL',
    })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => {
      if (output.length < MCP_LIMITS.images.engineOutputBytesMax) output += chunk.toString()
    })
    return new Promise((done, fail) => {
      child.once('error', (cause) => fail(noEngine(cause)))
      child.once('close', (code, signal) => {
        if (signal !== null) fail(noEngine(new Error(`the engine did not answer ${args[0]}`)))
        else done(code === 0 ? output : undefined)
      })
    })
  }
}

const ENGINE_FAILED = 125

const envLines = (env: ServerStart['env']): string =>
  Object.entries(env)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')

/** The server's own words are for admins: they are no part of the text that models read. */
export function serverEnded(code: number | null, errors: string): Problem {
  const members = errors === '' ? {} : { upstream_message: errors }
  const how =
    code === null ? 'was killed, perhaps since it used more memory than its limit' : `exited (${code})`
  return new Problem('upstream_invalid', { detail: `The MCP server of the image ${how}.`, members })
}

const absent = (image: string) =>
  new Problem('containers_unavailable', {
    detail: `The image ${image} is not on the machine of the platform, or the engine does not answer.`,
    adminHint: 'An operator reviews the image and pulls it. The platform does not pull images.',
  })

const noEngine = (cause: unknown) =>
  new Problem('containers_unavailable', {
    detail: 'The container engine of the platform does not run.',
    cause,
  })
