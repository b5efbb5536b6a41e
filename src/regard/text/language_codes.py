"""Codes of languages: of two letters (ISO 639-1, fr) and of three (ISO 639-3, fra)."""

_CODES = """
    aa=aar ab=abk ae=ave af=afr ak=aka am=amh an=arg ar=ara as=asm av=ava ay=aym az=aze ba=bak be=bel bg=bul bi=bis
    bm=bam bn=ben bo=bod br=bre bs=bos ca=cat ce=che ch=cha co=cos cr=cre cs=ces cu=chu cv=chv cy=cym da=dan de=deu
    dv=div dz=dzo ee=ewe el=ell en=eng eo=epo es=spa et=est eu=eus fa=fas ff=ful fi=fin fj=fij fo=fao fr=fra fy=fry
    ga=gle gd=gla gl=glg gn=grn gu=guj gv=glv ha=hau he=heb hi=hin ho=hmo hr=hrv ht=hat hu=hun hy=hye hz=her ia=ina
    id=ind ie=ile ig=ibo ii=iii ik=ipk io=ido is=isl it=ita iu=iku ja=jpn jv=jav ka=kat kg=kon ki=kik kj=kua kk=kaz
    kl=kal km=khm kn=kan ko=kor kr=kau ks=kas ku=kur kv=kom kw=cor ky=kir la=lat lb=ltz lg=lug li=lim ln=lin lo=lao
    lt=lit lu=lub lv=lav mg=mlg mh=mah mi=mri mk=mkd ml=mal mn=mon mr=mar ms=msa mt=mlt my=mya na=nau nb=nob nd=nde
    ne=nep ng=ndo nl=nld nn=nno no=nor nr=nbl nv=nav ny=nya oc=oci oj=oji om=orm or=ori os=oss pa=pan pi=pli pl=pol
    ps=pus pt=por qu=que rm=roh rn=run ro=ron ru=rus rw=kin sa=san sc=srd sd=snd se=sme sg=sag sh=hbs si=sin sk=slk
    sl=slv sm=smo sn=sna so=som sq=sqi sr=srp ss=ssw st=sot su=sun sv=swe sw=swa ta=tam te=tel tg=tgk th=tha ti=tir
    tk=tuk tl=tgl tn=tsn to=ton tr=tur ts=tso tt=tat tw=twi ty=tah ug=uig uk=ukr ur=urd uz=uzb ve=ven vi=vie vo=vol
    wa=wln wo=wol xh=xho yi=yid yo=yor za=zha zh=zho zu=zul
"""
_ISO_639_3 = dict(pair.split("=") for pair in _CODES.split())
_ISO_639_1 = {three: two for two, three in _ISO_639_3.items()}


def three_letter_code(code: str) -> str:
    """Return the ISO 639-3 code of an ISO 639-1 code; any other code as it is.

    >>> three_letter_code("fr"), three_letter_code("nds"), three_letter_code("zh_Hant")
    ('fra', 'nds', 'zh_Hant')
    """
    return _ISO_639_3.get(code, code)


def two_letter_code(code: str) -> str:
    """Return the ISO 639-1 code of an ISO 639-3 code; any other code as it is.

    >>> two_letter_code("fra"), two_letter_code("nds")
    ('fr', 'nds')
    """
    return _ISO_639_1.get(code, code)


def same_language(left: str, right: str) -> bool:
    """Return whether two codes are the same language, however they are written.

    >>> same_language("fr", "fra"), same_language("zh_Hant", "zho-hant"), same_language("pt", "pt-BR")
    (True, True, False)
    """
    return _parts(left) == _parts(right)


def _parts(code: str) -> list[str]:
    language, *others = code.lower().replace("_", "-").split("-")
    return [three_letter_code(language), *others]
