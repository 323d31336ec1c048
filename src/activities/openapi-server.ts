/** Knows where an operation of an OpenAPI document is served. */

import { callFailure } from './call-failure.ts'
import { type Fields, fieldsOf } from './http-auth-fields.ts'

/** The first server, of the operation before that of its path before that of the document. */
export function serverOf(where: {
  readonly document: Fields
  readonly item: Fields
  readonly operation: Fields
  readonly url: URL
}): URL {
  const { document, item, operation, url } = where
  const text =
    document['swagger'] === undefined
      ? newServer([operation, item, document])
      : oldServer(document, operation, url)
  const server = URL.canParse(text, url.href) ? new URL(text, url) : undefined
  if (server !== undefined && /^https?:$/.test(server.protocol)) return server
  throw callFailure('configuration', 'The OpenAPI document names no server that is an http or https URL.')
}

/** `servers`, which may be relative to the document, with the defaults of its variables. */
function newServer(places: readonly Fields[]): string {
  for (const { servers } of places) {
    const server = Array.isArray(servers) ? fieldsOf(servers[0]) : {}
    if (typeof server['url'] !== 'string') continue
    const variables = fieldsOf(server['variables'])
    return server['url'].replaceAll(/\{([^{}]+)\}/g, (whole, name: string) => {
      const variable = Object.hasOwn(variables, name) ? fieldsOf(variables[name]) : {}
      return typeof variable['default'] === 'string' ? variable['default'] : whole
    })
  }
  return '/'
}

/** `schemes`, `host` and `basePath` of Swagger 2.0; what is not said is as where the document is. */
function oldServer(document: Fields, operation: Fields, url: URL): string {
  const given = Array.isArray(operation['schemes']) ? operation['schemes'] : document['schemes']
  const schemes: readonly unknown[] = Array.isArray(given) ? given : []
  const own = url.protocol.slice(0, -1)
  const scheme =
    schemes.length === 0 || schemes.includes(own) ? own : schemes.includes('https') ? 'https' : schemes[0]
  const host = typeof document['host'] === 'string' ? document['host'] : url.host
  const path = typeof document['basePath'] === 'string' ? document['basePath'] : '/'
  return `${String(scheme)}://${host}${path.startsWith('/') ? '' : '/'}${path}`
}
