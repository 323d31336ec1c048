/** The servers that a function may send requests to: the entries of `egress` in its configuration. */

import { hostAndPort } from '../../infra/http-client/egress.ts'

const ENTRY = /^(?:\*|(\*\.)?(\[[0-9a-f:.]+\]|[^\s/:@?#*[\]\\%]+):([1-9]\d{0,4}))$/i

/** Checks an entry. @returns the reason why it is not valid; undefined if it is */
export function egressFault(entry: string): string | undefined {
  if (entry === '*' || serverOf(entry) !== undefined) return undefined
  return 'It is not `host:port`, `*.example.com:443` or `*`.'
}

/** `host:port` as URLs write it, with `*.` before it for its subdomains; undefined if the entry is not valid. */
function serverOf(entry: string): string | undefined {
  const [, wildcard = '', host = '', port = ''] = ENTRY.exec(entry) ?? []
  if (host === '' || Number(port) > 65_535 || !URL.canParse(`http://${host}:${port}`)) return undefined
  const { hostname } = new URL(`http://${host}:${port}`)
  // An address has no subdomains, and those of a top-level domain belong to anyone.
  if (wildcard !== '' && (/^\[|\.\d+$/.test(hostname) || !hostname.includes('.'))) return undefined
  return `${wildcard}${hostname}:${port}`
}

export class FunctionEgress {
  readonly #servers: ReadonlySet<string>
  /** `.example.com:443` for each `*.example.com:443`. */
  readonly #suffixes: readonly string[]
  readonly #all: boolean

  constructor(entries: readonly string[]) {
    const servers = entries.flatMap((entry) => serverOf(entry) ?? [])
    this.#servers = new Set(servers.filter((server) => !server.startsWith('*.')))
    this.#suffixes = servers.filter((server) => server.startsWith('*.')).map((server) => server.slice(1))
    this.#all = entries.includes('*')
  }

  /** `public`: `*` alone admits it, which names public addresses only. Undefined: it is not admitted. */
  admits(url: URL): 'named' | 'public' | undefined {
    if (this.names(hostAndPort(url))) return 'named'
    return this.#all ? 'public' : undefined
  }

  /** True if an entry names the server, by itself or by its domain. @param server `host:port` as URLs write it */
  names(server: string): boolean {
    return (
      this.#servers.has(server) ||
      this.#suffixes.some((suffix) => server.endsWith(suffix) && server.length > suffix.length)
    )
  }
}
