/** `tenon`: runs a command of the program, or a hidden one for images, containers and the documentation. */

import { createProgram } from './program.ts'
import { addVerb, type Flag } from './verb.ts'

// A reader such as `head` may close the pipe early; further output has no reader, which is no error.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit()
  })

const program = createProgram()

/** Adds a verb for images, containers or the documentation, which the help does not list. */
function addHiddenVerb<A extends unknown[]>(
  usage: string,
  work: (...args: A) => Promise<number>,
  flags: readonly Flag[] = [],
) {
  addVerb(program, usage, '', work, flags, { hidden: true })
}

// Writes the bundles of an image into a folder.
addHiddenVerb('build <folder>', async (folder: string) =>
  (await import('./stack/build.ts')).exportBuild(folder),
)
// Writes the folder of the package @tenon/cli.
addHiddenVerb('package <folder>', async (folder: string) =>
  (await import('./stack/build.ts')).exportCommand(folder),
)
// Creates the certificate of the object store.
addHiddenVerb('certificate <file>', async (file: string) =>
  (await import('./stack/containers.ts')).makeCertificate(file),
)
// Serves the Temporal UI through the proxy that checks host names.
addHiddenVerb('temporal-ui', async () => (await import('./stack/containers.ts')).serveTemporalUi())
// Writes what an installation consists of.
addHiddenVerb('sbom [file]', async (file?: string) => (await import('./stack/sbom.ts')).writeSbom(file))
addHiddenVerb(
  'reference',
  async (options: { check?: boolean }) => (await import('./stack/reference.ts')).reference(options),
  [['--check', 'only check it']],
)

await program.parseAsync()
