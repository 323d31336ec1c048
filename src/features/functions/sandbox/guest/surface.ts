/** Part of the program in a function's process: removes what code of functions has no use for, so that less can be attacked. */

/**
 * The permissions of the process are the wall; this leaves less of Deno behind it. Members that permissions refuse stay, since
 * their refusals say what functions may do. test/security/function-surface.test.ts pins what is left.
 */
export const SURFACE = `
const remove = (from, names) => {
  for (const name of names) Reflect.deleteProperty(from, name)
}
// The internals of Deno: all of its operations, before any check of a permission.
remove(Deno, [Deno.internal, 'internal', 'stdin', 'execPath', 'mainModule', 'args', 'pid', 'ppid', 'isatty',
  'consoleSize', 'dlopen', 'UnsafeCallback', 'UnsafePointer', 'UnsafePointerView', 'UnsafeFnPointer', 'telemetry', 'test', 'bench',
  'lint', 'SeekMode', 'FsFile'])
remove(Navigator.prototype, ['gpu'])
remove(globalThis, Object.getOwnPropertyNames(globalThis).filter((name) => /^(GPU|Image|Offscreen|Lock|createImage)/.test(name)))
// A worker has a realm of its own, with all that is removed from this one.
remove(globalThis, ['Worker'])
// Node's own leads past the import map to its modules and to the standard streams. It is loaded when it is first read.
remove(globalThis, ['process'])
globalThis.process = { env: {}, exit, nextTick: (work, ...given) => queueMicrotask(() => work(...given)) }
`
