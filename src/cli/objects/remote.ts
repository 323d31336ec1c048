/** Names of objects on the command line, and lists of them. */

import type { ApiClient } from '../client.ts'

export interface ObjectName {
  readonly bucket: string
  readonly key: string
}

export interface ListedObject {
  readonly key: string
  /** In bytes. */
  readonly size: number
  readonly etag: string
  /** RFC 3339. */
  readonly last_modified: string
}

/** Reads `bucket/key`; the key may be empty, or a prefix. */
export function nameIn(text: string): ObjectName {
  const at = text.indexOf('/')
  return at < 0 ? { bucket: text, key: '' } : { bucket: text.slice(0, at), key: text.slice(at + 1) }
}

export const objectPath = ({ bucket, key }: ObjectName): string =>
  `/v1/objects/${encodeURIComponent(bucket)}/${key.split('/').map(encodeURIComponent).join('/')}`

interface Page {
  readonly data: readonly ListedObject[]
  readonly prefixes?: readonly string[]
  readonly page: { readonly next: string | null }
}

/** All objects whose keys begin with a prefix, page by page. @param delimiter groups keys as folders */
export async function* listPages(
  client: ApiClient,
  { bucket, key: prefix }: ObjectName,
  delimiter?: string,
): AsyncGenerator<Page> {
  for (let next: string | null = ''; next !== null; ) {
    const query = new URLSearchParams({
      prefix,
      'page[size]': '200',
      ...(delimiter !== undefined && { delimiter }),
      ...(next !== '' && { 'page[after]': next }),
    })
    const page: Page = await client.get(`/v1/objects/${encodeURIComponent(bucket)}?${query}`)
    yield page
    next = page.page.next
  }
}
