/** The files of a project: reads and writes regular files below its folder, and follows no link out of it. */

import { lstat, mkdir, readdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'

/** More is no declaration, and would be held in memory with all others. */
const FILE_BYTES_MAX = 2_097_152

/** Names of resources, which become names of files. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$/

export class ProjectFolder {
  /** Its path without links. */
  readonly root: string

  private constructor(root: string) {
    this.root = root
  }

  /** @throws Error if there is no such folder */
  static async open(path: string): Promise<ProjectFolder> {
    const root = await realpath(path).catch(() => undefined)
    if (root === undefined) throw new Error(`There is no folder ${path}.`)
    return new ProjectFolder(root)
  }

  path(...parts: readonly string[]): string {
    return join(this.root, ...parts)
  }

  /**
   * The entries of a folder of the project by name, without those that begin with a dot; none if the folder is missing.
   * @throws Error for a symbolic link, and for names that are one file where case does not count
   */
  async list(folder: string): Promise<readonly { readonly name: string; readonly isFolder: boolean }[]> {
    if (!(await this.#isFolder(folder))) return []
    const entries = await readdir(this.path(folder), { withFileTypes: true })
    const shown = entries.filter(({ name }) => !name.startsWith('.'))
    const link = shown.find((entry) => !entry.isFile() && !entry.isDirectory())
    if (link !== undefined) throw notRegular(`${folder}/${link.name}`)
    requireDistinct(
      folder,
      shown.map(({ name }) => name),
    )
    return shown
      .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** The names of the files `<folder>/<name>.yaml`. @param others endings of further files that may be there */
  async names(folder: string, others: readonly string[] = []): Promise<readonly string[]> {
    const entries = await this.list(folder)
    const files = entries.filter(({ name }) => ![...others, '.md'].some((end) => name.endsWith(end)))
    return files.map(({ name, isFolder }) => {
      if (isFolder || !name.endsWith('.yaml'))
        throw new Error(`${folder}/${name} is not read: the files of ${folder} end in .yaml.`)
      return requireName(name.slice(0, -'.yaml'.length), `${folder}/${name}`)
    })
  }

  /** @returns undefined if there is no such file @throws Error if it is a link, is not a file, or too large */
  async read(file: string): Promise<string | undefined> {
    const found = await this.#stat(file)
    if (found === undefined) return undefined
    if (!found.isFile()) throw notRegular(file)
    if (found.size > FILE_BYTES_MAX)
      throw new Error(`${file} has ${found.size} bytes. A file of a project has at most ${FILE_BYTES_MAX}.`)
    return readFile(this.path(file), 'utf8')
  }

  /** @returns true if the file was not there, or had another text */
  async write(file: string, text: string): Promise<boolean> {
    if ((await this.read(file)) === text) return false
    const folder = dirname(file)
    if (folder !== '.') {
      await this.#isFolder(folder)
      await mkdir(this.path(folder), { recursive: true })
    }
    await writeFile(this.path(file), text)
    return true
  }

  /** @throws Error if a file that is part of the project lies outside of it; packages may lie anywhere */
  requireInside(files: readonly string[], of: string): void {
    const outside = files.find((file) => {
      const path = relative(this.root, file)
      return (path.startsWith('..') || path === file) && !file.split(sep).includes('node_modules')
    })
    if (outside !== undefined)
      throw new Error(`${of} uses ${outside}, which is outside of the project. Copy it into the project.`)
  }

  /** The file without following links in any part of its path. */
  async #stat(file: string) {
    const above = dirname(file)
    if (above !== '.' && !(await this.#isFolder(above))) return undefined
    return lstat(this.path(file)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw error
    })
  }

  async #isFolder(folder: string): Promise<boolean> {
    const found = await this.#stat(folder)
    if (found === undefined) return false
    if (!found.isDirectory()) throw notRegular(folder)
    return true
  }
}

const notRegular = (file: string): Error =>
  new Error(`${file} is a symbolic link, or not a file. A project consists of regular files and folders.`)

/** @throws Error for a name that is a path, or is written in other characters */
export function requireName(name: string, where: string): string {
  if (NAME.test(name)) return name
  throw new Error(
    `${where}: ${JSON.stringify(name)} cannot be the name of a file. Names have letters, digits, _ and -, at most 100.`,
  )
}

/** @throws Error if two names are one file on a file system where case does not count */
export function requireDistinct(folder: string, names: readonly string[]): void {
  const seen = new Map<string, string>()
  for (const name of names) {
    const other = seen.get(name.toLowerCase())
    if (other !== undefined)
      throw new Error(
        `${folder}/${other} and ${folder}/${name} differ only in case: on many machines they are one file. Rename one of them.`,
      )
    seen.set(name.toLowerCase(), name)
  }
}
