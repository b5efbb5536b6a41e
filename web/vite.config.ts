import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [svelte()],
  base: "./",
  build: {
    outDir: "../src/regard/serve/static",
    emptyOutDir: true,
    sourcemap: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    license: { fileName: "licenses.md" },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8000" } },
  test: { include: ["test/**/*.test.ts"] },
});
