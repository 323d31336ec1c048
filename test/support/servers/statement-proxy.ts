/** A proxy in front of a database that acts at a given message of its clients: another write comes first, or all connections end. */

import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/**
 * What happens at a message. `death`: it is not passed on, and no connection is made until the next script; `mute death`: it is
 * passed on, but its answer is not; `cut` and `mute cut`: as these, but new connections are made. `error`: PostgreSQL fails with this code instead of executing
 * it. A function is awaited, then the message is passed on.
 */
export type Fault =
  | 'death'
  | 'mute death'
  | 'cut'
  | 'mute cut'
  | { readonly error: string }
  | (() => Promise<unknown>)

/** By the number of the message, from 1. */
type Script = Readonly<Record<number, Fault>> | ((message: number) => Fault | undefined)

export interface StatementProxy {
  /** The URL of the database, through the proxy. */
  readonly url: string
  /** Messages since the last script: in PostgreSQL, all that is sent up to a Sync is one. */
  readonly messages: number
  /** The faults that have happened since the last script. */
  readonly applied: readonly Fault[]
  /** Counts from the next message, which is the first. */
  script(faults?: Script): void
  close(): void
}

/** @param isCounted the messages that are counted and can fail; the others are passed on */
export async function startStatementProxy(
  database: string,
  isCounted = isStatement,
): Promise<StatementProxy> {
  const { hostname: host, port } = new URL(database)
  const sockets = new Set<Socket>()
  const state = {
    faults: {} as Script,
    messages: 0,
    applied: [] as Fault[],
    isDead: false,
  }
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  const server = createServer((client) => {
    if (state.isDead) return client.destroy()
    const upstream = connect({ host, port: Number(port) })
    let isMute = false
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => [client, upstream].map((each) => sockets.delete(each.destroy())))
    }
    const pass = async (message: Buffer) => {
      const fault = isCounted(message) ? faultOf(state.faults, ++state.messages) : undefined
      if (fault !== undefined) state.applied.push(fault)
      if (typeof fault === 'function') await fault()
      state.isDead ||= fault === 'death' || fault === 'mute death'
      isMute ||= fault === 'mute death' || fault === 'mute cut'
      if (fault === 'death' || fault === 'cut') cut()
      else if (!client.destroyed) upstream.write(typeof fault === 'object' ? failure(fault.error) : message)
    }
    let last = Promise.resolve()
    client.on('data', (message) => {
      last = last.then(() => pass(message))
    })
    upstream.on('data', (answer) => (isMute ? cut() : client.write(answer)))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const url = new URL(database)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    get messages() {
      return state.messages
    },
    get applied() {
      return state.applied
    },
    script: (faults = {}) => void Object.assign(state, { faults, messages: 0, applied: [], isDead: false }),
    close: () => {
      cut()
      server.close()
    },
  }
}

const faultOf = (script: Script, message: number): Fault | undefined =>
  typeof script === 'function' ? script(message) : script[message]

/** The first message of a connection has no letter; those of the password begin with `p`. */
const isStatement = ([letter]: Buffer) => letter !== 0 && letter !== 'p'.charCodeAt(0)

/** Commands of the MongoDB protocol that change documents. FerretDB answers nobody any more once the connection of a `find` was cut. */
export const isMongoChange = (message: Buffer) =>
  ['insert', 'update', 'delete'].some((name) => message.includes(`\u0002${name}\0`))

/** A simple query that fails with the code. */
function failure(code: string): Buffer {
  const text = Buffer.from(
    `do $$ begin raise exception 'broken by the test' using errcode = '${code}'; end $$\0`,
  )
  const head = Buffer.from('Q\0\0\0\0', 'latin1')
  head.writeInt32BE(text.length + 4, 1)
  return Buffer.concat([head, text])
}
