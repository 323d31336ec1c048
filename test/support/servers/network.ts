/** Machines of a drill on this one: network namespaces on a bridge of their own, which end with the process that opened them, also if it is killed. */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'

/** The network namespace of a process. */
export interface Machine {
  readonly address: string
  /** The words before the command of a process that runs there. */
  readonly command: readonly string[]
}

/** A link that is down passes nothing, and no connection ends by it. */
export type Link = 'up' | 'down'

const execute = promisify(execFile)
const ip = async (...args: readonly string[]) => (await execute('ip', args)).stdout

/** Waits until its input ends, which it does with the process that holds it; then removes the bridge, and all processes and namespaces of a prefix. */
const REAPER = `cat > /dev/null
names=$(ip netns list | cut -d ' ' -f 1 | grep "^$1-")
# First all but shells: that of a worker ends functions, which have namespaces of their own.
for name in $names; do
  for pid in $(ip netns pids "$name"); do
    [ "$(cat "/proc/$pid/comm")" = sh ] || kill -9 "$pid"
  done
done
sleep 1
for name in $names; do
  ip netns pids "$name" | xargs -r kill -9
  ip netns delete "$name"
done
# A namespace stays for as long as the kernel waits for the end of its connections.
for link in $(ip -o link show master "$2" | cut -d ' ' -f 2 | cut -d @ -f 1); do
  ip link delete "$link"
done
ip link delete "$2"`
/** Networks of three bytes: each run takes the first that this machine does not have. */
const NETWORKS = Array.from({ length: 200 }, (_, n) => `10.213.${n}`)
const BITS = 24

export class Network {
  readonly #prefix: string
  readonly #bridge: string
  readonly #bytes: string
  readonly #reaper: ChildProcess
  #machines = 1

  private constructor({ prefix, bridge, bytes }: { prefix: string; bridge: string; bytes: string }) {
    this.#prefix = prefix
    this.#bridge = bridge
    this.#bytes = bytes
    const args = ['-c', REAPER, 'sh', prefix, bridge]
    // A terminal ends its whole group.
    this.#reaper = spawn('sh', args, { detached: true, stdio: ['pipe', 'ignore', 'inherit'] })
  }

  /** @throws Error with the reason why there can be none */
  static async open(): Promise<Network> {
    if (process.platform !== 'linux' || process.getuid?.() !== 0)
      throw new Error('Network namespaces need Linux and the rights of root: run the command as root.')
    const used = await ip('-o', 'address').catch((error: Error) => {
      throw new Error(`Network namespaces need \`ip\` (Debian: iproute2): ${error.message}`)
    })
    const bytes = NETWORKS.find((network) => !used.includes(` ${network}.`))
    if (bytes === undefined) throw new Error('All networks from 10.213.0.0/24 on are in use.')
    const names = { prefix: `tenon-${process.pid}`, bridge: `tenon-${process.pid}`, bytes }
    await ip('link', 'add', names.bridge, 'type', 'bridge')
    const network = new Network(names)
    await ip('address', 'add', `${network.address}/${BITS}`, 'dev', names.bridge)
    await ip('link', 'set', names.bridge, 'up')
    return network
  }

  /** Of this machine, as the others reach it. */
  get address(): string {
    return `${this.#bytes}.1`
  }

  async add(name: string): Promise<Machine & { setLink(link: Link): Promise<void> }> {
    this.#machines += 1
    const [of, address] = [`${this.#prefix}-${name}`, `${this.#bytes}.${this.#machines}`]
    // Names of links have 15 characters.
    const here = `tn${process.pid}-${this.#machines}`
    await ip('netns', 'add', of)
    await ip('link', 'add', here, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', of)
    await ip('link', 'set', here, 'master', this.#bridge, 'up')
    await ip('-n', of, 'address', 'add', `${address}/${BITS}`, 'dev', 'eth0')
    await ip('-n', of, 'link', 'set', 'lo', 'up')
    const setLink = async (link: Link) => void (await ip('-n', of, 'link', 'set', 'eth0', link))
    await setLink('up')
    return { address, command: ['ip', 'netns', 'exec', of], setLink }
  }

  /** Kills what runs on the machines. */
  async close(): Promise<void> {
    const ended = once(this.#reaper, 'exit')
    this.#reaper.stdin?.end()
    await ended
  }
}
