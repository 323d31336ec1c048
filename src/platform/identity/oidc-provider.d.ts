/** A file of the provider for which nobody has types. */

declare module 'oidc-provider/lib/helpers/als.js' {
  import type { AsyncLocalStorage } from 'node:async_hooks'

  const storage: AsyncLocalStorage<never>

  // biome-ignore lint/style/noDefaultExport: it is the file's own
  export { storage as default }
}
