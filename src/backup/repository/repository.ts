/** A repository of backups: immutable encrypted files of one installation, each of which a manifest names with its digest. */

import { createHash, createHmac } from 'node:crypto'
import { pipeline, Readable, type Transform } from 'node:stream'
import { createZstdCompress, createZstdDecompress } from 'node:zlib'
import { FileMissing, type FileStore, type StoredFile } from './file-store.ts'
import { makeRepositoryKey, unwrapRepositoryKey, type WrappedKey } from './repository-key.ts'
import { type Chunks, SealBroken, seal, unseal } from './sealed-stream.ts'

/** A file as a manifest names it. */
export interface Member {
  readonly name: string
  /** Of the encrypted bytes. */
  readonly size: number
  readonly sha256: string
}

const HEAD = 'repository.json'
const FORMAT = 1

interface Head {
  readonly format: number
  /** The id of the installation, as `--yes` names it. */
  readonly installation: string
  readonly made_at: string
  readonly key: WrappedKey
}

export class Repository {
  readonly store: FileStore
  readonly installation: string
  /** True if it was made just now. */
  readonly isNew: boolean
  readonly #key: Buffer

  private constructor(store: FileStore, installation: string, key: Buffer, isNew: boolean) {
    this.store = store
    this.installation = installation
    this.isNew = isNew
    this.#key = key
  }

  /** @throws Error if there is no repository, or it is of another version; WrongPassphrase */
  static async open(store: FileStore, passphrase: string): Promise<Repository> {
    const head = await readHead(store)
    if (head === undefined)
      throw new Error(`There is no repository at ${store.address}. \`tenon backup create\` makes one.`)
    return new Repository(store, head.installation, await unwrapRepositoryKey(passphrase, head.key), false)
  }

  /** Opens the repository of an installation, and makes it if there is none. @throws as {@link open}; Error if it is another installation's */
  static async openOrMake(store: FileStore, passphrase: string, installation: string): Promise<Repository> {
    const repository =
      (await readHead(store)) === undefined
        ? await Repository.#make(store, passphrase, installation)
        : await Repository.open(store, passphrase)
    if (repository.installation !== installation)
      throw new Error(
        `The repository at ${store.address} is that of the installation ${repository.installation}, and this one is ${installation}. Each installation needs a repository of its own.`,
      )
    return repository
  }

  /** Of two processes that make it at once, one finds that of the other. */
  static async #make(store: FileStore, passphrase: string, installation: string): Promise<Repository> {
    const { key, wrapped } = await makeRepositoryKey(passphrase)
    const head: Head = { format: FORMAT, installation, made_at: new Date().toISOString(), key: wrapped }
    return store.exclusively(async () => {
      if ((await readHead(store)) !== undefined) return Repository.open(store, passphrase)
      await store.write(HEAD, oneChunk(`${JSON.stringify(head, null, 2)}\n`))
      return new Repository(store, installation, key, true)
    })
  }

  /** The name of a file whose content is known by something that the name must not reveal. */
  nameOf(folder: string, subject: string): string {
    const id = createHmac('sha256', this.#key).update(subject).digest('hex')
    return `${folder}/${id.slice(0, 2)}/${id}`
  }

  async write(name: string, content: Chunks): Promise<Member> {
    const digest = createHash('sha256')
    let size = 0
    async function* counted(sealed: Chunks): Chunks {
      for await (const chunk of sealed) {
        digest.update(chunk)
        size += chunk.length
        yield chunk
      }
    }
    await this.store.write(name, counted(seal(this.#key, name, content)))
    return { name, size, sha256: digest.digest('hex') }
  }

  /** As {@link write}, compressed. */
  writeCompressed(name: string, content: Chunks): Promise<Member> {
    return this.write(name, through(content, createZstdCompress()))
  }

  writeJson(name: string, value: unknown): Promise<Member> {
    return this.writeCompressed(name, oneChunk(JSON.stringify(value)))
  }

  /** @throws FileMissing, SealBroken */
  read(name: string): Chunks {
    return unseal(this.#key, name, this.store.read(name))
  }

  readCompressed(name: string): Chunks {
    return through(this.read(name), createZstdDecompress())
  }

  async readJson<T>(name: string): Promise<T> {
    const chunks: Buffer[] = []
    for await (const chunk of this.readCompressed(name)) chunks.push(chunk)
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as T
  }

  /** Compares a file with its manifest. @throws FileMissing, SealBroken */
  async check({ name, size, sha256 }: Member): Promise<void> {
    const digest = createHash('sha256')
    let read = 0
    for await (const chunk of this.store.read(name)) {
      digest.update(chunk)
      read += chunk.length
    }
    if (read !== size) throw new SealBroken(name, `it has ${read} bytes, and its manifest says ${size}`)
    if (digest.digest('hex') !== sha256) throw new SealBroken(name, 'its digest is not that of its manifest')
  }

  list(prefix: string): Promise<StoredFile[]> {
    return this.store.list(prefix)
  }

  close(): void {
    this.store.close()
  }
}

async function readHead(store: FileStore): Promise<Head | undefined> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of store.read(HEAD)) chunks.push(chunk)
  } catch (error) {
    if (error instanceof FileMissing) return undefined
    throw error
  }
  const head = parseHead(Buffer.concat(chunks).toString('utf8'))
  if (head === undefined)
    throw new Error(`The file ${HEAD} of the repository ${store.address} is damaged. Put back a copy of it.`)
  if (head.format !== FORMAT)
    throw new Error(
      `The repository at ${store.address} has the format ${head.format}, and this version of Tenon reads ${FORMAT}.`,
    )
  return head
}

/** @returns undefined if it is none. Of another format, nothing but the number is known. */
function parseHead(text: string): Head | undefined {
  try {
    const head = JSON.parse(text) as Head
    const isWhole = head.format !== FORMAT || Object.values(head.key).every((value) => value)
    return typeof head.format === 'number' && isWhole ? head : undefined
  } catch {
    return undefined
  }
}

async function* oneChunk(text: string): Chunks {
  yield Buffer.from(text)
}

/** What comes out of a transformation. If its source fails, so does it, and if it is not read to its end, the source ends. */
function through(source: Chunks, transform: Transform): Chunks {
  return pipeline(Readable.from(source), transform, () => {})
}
