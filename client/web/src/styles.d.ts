// Style sheets are part of the bundle: esbuild reads them.
declare module "*.css";
