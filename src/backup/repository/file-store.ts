/** The interface to the place of a repository's files, such as a folder, which sees encrypted bytes alone. */

import type { Chunks } from './sealed-stream.ts'

export interface StoredFile {
  /** Relative, with `/` between its parts. */
  readonly name: string
  /** In bytes. */
  readonly size: number
}

export interface FileStore {
  /** As users write it, for messages. */
  readonly address: string
  /** Writes a file, which is there complete or not at all. @throws Error if the store is full or cannot be reached */
  write(name: string, content: Chunks): Promise<void>
  /** @throws FileMissing */
  read(name: string): Chunks
  has(name: string): Promise<boolean>
  /** The files below a prefix that ends with `/`, in the order of their names. */
  list(prefix: string): Promise<StoredFile[]>
  /** Removes a file, if it is there. */
  remove(name: string): Promise<void>
  /** Runs work that adds files, while none are pruned. It waits for the end of a prune. */
  sharing<T>(work: () => Promise<T>): Promise<T>
  /** Runs work that prunes files, while none are added. It waits for the ends of backups. */
  exclusively<T>(work: () => Promise<T>): Promise<T>
  close(): void
}

export class FileMissing extends Error {
  constructor(address: string, name: string) {
    super(`${address} has no file ${name}.`)
    this.name = 'FileMissing'
  }
}
