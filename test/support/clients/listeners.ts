/**
 * Finds the TCP ports that a local process listens on, and sends them HTTP requests. Linux only: it reads
 * /proc.
 */

import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { type ClientRequest, type IncomingHttpHeaders, request as plain } from 'node:http'
import { request as secured } from 'node:https'
import { text } from 'node:stream/consumers'

const LISTENING = '0A'
const ANSWER_MS = 5_000

export const canFindListeners = existsSync('/proc/net/tcp')

/** @returns the id of the process that listens on the port */
export function listenerOf(port: number): number {
  const wanted = new Set([...sockets()].filter(([, at]) => at === port).map(([inode]) => inode))
  const pid = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .find((name) => socketsOf(name).some((inode) => wanted.has(inode)))
  if (pid === undefined) throw new Error(`No process listens on port ${port}`)
  return Number(pid)
}

/** @returns the ports that the process listens on, in order */
export function portsOf(pid: number): number[] {
  const all = sockets()
  const ports = socketsOf(String(pid)).flatMap((inode) => all.get(inode) ?? [])
  return [...new Set(ports)].sort((a, b) => a - b)
}

/** Port by inode, of every listening socket of the machine. */
function sockets(): Map<string, number> {
  const rows = ['/proc/net/tcp', '/proc/net/tcp6']
    .filter((path) => existsSync(path))
    .flatMap((path) => readFileSync(path, 'utf8').split('\n').slice(1))
  const listening = rows.map((row) => row.trim().split(/\s+/)).filter(([, , , state]) => state === LISTENING)
  return new Map(
    listening.map(([, local = '', , , , , , , , inode = '']) => [
      inode,
      Number.parseInt(local.split(':')[1] ?? '', 16),
    ]),
  )
}

/** Inodes of the sockets that a process holds; none if it is gone or belongs to another user. */
function socketsOf(pid: string): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const target = linkOf(`/proc/${pid}/fd/${fd}`)
      return /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? []
    })
  } catch {
    return []
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

export interface LocalRequest {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly tls?: boolean
}

export interface LocalReply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/**
 * Sends one request to a loopback port, over TLS without a client certificate if `tls` is set. @returns
 * undefined if no HTTP response arrives; a TLS server's complaint about plain HTTP is none
 */
export function ask(port: number, path: string, options: LocalRequest = {}): Promise<LocalReply | undefined> {
  return new Promise((done) => {
    const sent = send(port, path, options)
    sent.once('error', () => done(undefined))
    sent.once('timeout', () => sent.destroy(new Error('timeout')))
    sent.once('response', (response) => {
      text(response).then(
        (body) => {
          const { statusCode: status = 0, headers } = response
          done(body.includes('HTTP request to an HTTPS server') ? undefined : { status, headers, body })
        },
        () => done(undefined),
      )
    })
    sent.end(options.body)
  })
}

function send(
  port: number,
  path: string,
  { method = 'GET', headers = {}, tls = false }: LocalRequest,
): ClientRequest {
  const options = { host: '127.0.0.1', port, path, method, headers, agent: false, timeout: ANSWER_MS }
  return tls ? secured({ ...options, rejectUnauthorized: false }) : plain(options)
}
