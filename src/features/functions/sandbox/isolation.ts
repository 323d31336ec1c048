/** Isolates a function's process by the operating system: a user id of its own, and namespaces by bwrap or unshare. */

import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { accessSync, constants, existsSync, lstatSync, readlinkSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { killGroup } from '../../../infra/kill-group.ts'
import { FUNCTION_LIMITS } from '../limits.ts'

type Sandbox = 'bwrap' | 'unshare'

export interface Layers {
  /** True if each process runs as a user of its own, which takes root. */
  readonly ownUser: boolean
  /** The program that makes namespaces, and its path. */
  readonly sandbox: { readonly name: Sandbox; readonly path: string } | undefined
}

/** The range of user ids that systemd reserves for running services (DynamicUser); they own no files. */
const USERS = { first: 61_184, count: 4_336 }
let nextUser = randomInt(USERS.count)

/**
 * No core dumps; a limit of CPU time, in case its watcher dies; a lower priority than the platform, which must be able to
 * watch it.
 */
const BOUNDED = `ulimit -c 0; ulimit -t ${FUNCTION_LIMITS.cpuSecondsMax}; exec nice -n ${FUNCTION_LIMITS.sandbox.niceness.usual} "$0" "$@"`
/**
 * In addition, few threads, counted for each user and namespace: `-p` in dash and busybox, `-u` in bash. A sandbox has no
 * /dev/null.
 */
const FEW_THREADS = `ulimit -p ${FUNCTION_LIMITS.threadsMax} 2>&- || ulimit -u ${FUNCTION_LIMITS.threadsMax}; ${BOUNDED}`

/** The host's files in the sandbox: those that a program needs to start, and no secrets. */
const LIBRARIES = ['/usr/lib', '/usr/lib64', '/usr/bin', '/lib', '/lib64', '/bin']
const INSIDE = '/program'

export class Isolation {
  readonly layers: Layers

  constructor(layers: Layers) {
    this.layers = layers
  }

  /** True if the started process is a parent of the program. */
  get isWrapped(): boolean {
    return this.layers.sandbox !== undefined
  }

  /** The command that runs a program in all layers, bounded in processor time, and in threads if they can be counted. */
  start(
    program: string,
    args: readonly string[],
  ): { command: string; args: readonly string[]; user: { uid?: number; gid?: number } } {
    const { ownUser, sandbox } = this.layers
    const id = USERS.first + (nextUser++ % USERS.count)
    const user = ownUser ? { uid: id, gid: id } : {}
    const bounded = (path: string) => [
      ...['/bin/sh', '-c', ownUser || sandbox !== undefined ? FEW_THREADS : BOUNDED],
      ...[path, ...args],
    ]
    if (sandbox?.name === 'bwrap')
      return {
        command: sandbox.path,
        args: [...BWRAP, ...hostFiles(program), '--', ...bounded(INSIDE)],
        user,
      }
    if (sandbox?.name === 'unshare')
      return { command: sandbox.path, args: [...UNSHARE, '--', ...bounded(program)], user }
    const [command = '', ...rest] = bounded(program)
    return { command, args: rest, user }
  }
}

const BWRAP = [
  ...['--unshare-user', '--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts'],
  ...['--die-with-parent', '--as-pid-1', '--cap-drop', 'ALL'],
]
const UNSHARE = ['--user', '--net', '--ipc', '--uts', '--pid', '--fork', '--kill-child']

/**
 * Read-only binds of libraries and the program; no /dev, no writable folder, and no /proc, which container engines do not let it
 * mount. Deno's Node modules read the path of their program from there, and end the process if there is none.
 */
function hostFiles(program: string): string[] {
  const shared = LIBRARIES.filter((path) => existsSync(path)).flatMap((path) =>
    lstatSync(path).isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path],
  )
  const own = ['--ro-bind', program, INSIDE, '--dir', '/proc/self', '--symlink', INSIDE, '/proc/self/exe']
  return [...shared, ...own, '--remount-ro', '/', '--chdir', '/']
}

/**
 * Finds the layers that work here by starting the program in them, most layers first. Takes some 20 ms.
 * @param program the path of Deno
 * @param path a list of folders as in PATH, where bwrap and unshare are looked for
 */
export async function findIsolation(program: string, path = process.env['PATH'] ?? ''): Promise<Isolation> {
  const found = (['bwrap', 'unshare'] as const).flatMap((name) => {
    const at = onPath(name, path)
    return at === undefined ? [] : [{ name, path: at }]
  })
  // Watching the memory takes the pid of the sandbox's child.
  const sandboxes = existsSync(childrenOf(process.pid)) ? [...found, undefined] : [undefined]
  const users = process.getuid?.() === 0 ? [true, false] : [false]
  for (const ownUser of users)
    for (const sandbox of sandboxes) {
      const isolation = new Isolation({ ownUser, sandbox })
      if (await runs(isolation, program)) return isolation
    }
  // The program does not run at all; starting it reports the reason.
  return new Isolation({ ownUser: false, sandbox: undefined })
}

/** A description of the layers. */
export interface Described {
  readonly active: readonly string[]
  /** Each with the way to get it. */
  readonly missing: readonly string[]
}

const HIDES = {
  bwrap: 'bwrap (no network, no files of the host, no other processes)',
  unshare: 'unshare (no network, no signals to other processes)',
}
const NAMESPACES =
  'install bubblewrap, and let users make namespaces (user.max_user_namespaces, AppArmor; in a container its seccomp profile)'

export function describeLayers({ ownUser, sandbox }: Layers): Described {
  const active = ['deno permissions', ownUser && 'a user of its own', sandbox && HIDES[sandbox.name]]
  const missing = [
    !ownUser && 'a user of its own: run the worker as root, in a container with CAP_SETUID and CAP_SETGID',
    sandbox?.name !== 'bwrap' && `bwrap: ${NAMESPACES}`,
  ]
  const texts = (all: readonly (string | false | undefined)[]) =>
    all.filter((text) => typeof text === 'string')
  return { active: texts(active), missing: texts(missing) }
}

function onPath(name: string, path: string): string | undefined {
  const paths = path.split(delimiter).map((folder) => join(folder, name))
  return paths.find((file) => {
    try {
      accessSync(file, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** True if the program writes any output in these layers. */
function runs(isolation: Isolation, program: string): Promise<boolean> {
  const { command, args, user } = isolation.start(program, ['--version'])
  const child = spawn(command, args, {
    ...{ ...user, cwd: '/', env: {}, detached: true },
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: FUNCTION_LIMITS.probeMs,
    killSignal: 'SIGKILL',
  })
  return new Promise((done) => {
    const end = (answer: boolean) => {
      killGroup(child.pid)
      done(answer)
    }
    child.once('error', () => end(false)).once('close', () => end(false))
    child.stdout.once('data', () => end(true))
  })
}

export const childrenOf = (pid: number): string => `/proc/${pid}/task/${pid}/children`
