/** Writes `tenon-client.js` for pages without a build step: `@tenon/client` with its sign-in, in one file. */

import { build } from 'esbuild'

const SOURCE = new URL('../client/src/', import.meta.url).pathname

/** @param {string} folder beside the page @returns {Promise<void>} */
export async function writePageClient(folder) {
  await build({
    stdin: {
      contents: "export * from './index.ts'\nexport * from './auth.ts'",
      resolveDir: SOURCE,
      loader: 'ts',
    },
    outfile: `${folder}/tenon-client.js`,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    logLevel: 'error',
  })
}
